// B = rows of W, [n, k], in any storage type; one matrix per z when it is an activation.
#if !(COOP && WT == 1)
#include weight
#endif
#if COOP
// Eight neighbours of a row from element e.
fn w8(e: u32) -> mat2x4<f16> {
#if WT == 1
  return W[e >> 3u];
#else
  return half8(w4(e), w4(e + 4u));
#endif
}
// Past the end the last row or columns: what they give is not stored, or A is zero there.
fn w_load8(n: u32, k: u32, z: u32) -> mat2x4<f16> {
#if NE
  let row = min(n, p.n - 1u);
#else
  let row = n;
#endif
  return w8(p.w_off + z * p.w_batch + row * p.k + min(k, p.k - 8u));
}
#else
fn w_load4(n: u32, k: u32, z: u32) -> vec4<f32> {
  if (n >= p.n) { return vec4<f32>(0.0); }
#if WKN
  // W is [k, n]: an activation that is not transposed.
  var t = vec4<f32>(0.0);
  for (var i = 0u; i < 4u; i++) { if (k + i < p.k) { t[i] = w1(p.w_off + z * p.w_batch + (k + i) * p.n + n); } }
  return t;
#else
  let e = p.w_off + z * p.w_batch + n * p.k + k;
#if VW
  if (k >= p.k) { return vec4<f32>(0.0); }
  return w4(e);
#else
  var v = vec4<f32>(0.0);
  for (var i = 0u; i < 4u; i++) { if (k + i < p.k) { v[i] = w1(e + i); } }
  return v;
#endif
#endif
}
#endif
