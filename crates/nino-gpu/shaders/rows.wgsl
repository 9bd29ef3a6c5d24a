// One workgroup per row of d values: softmax (MODE 0), layer or RMS norm with modulation and
// activation (MODE 1), or the row's (mean, 1/std) (MODE 2). Two passes over the row keep the
// variance accurate.
#include rows_bind
#if !SUBGROUP
var<workgroup> part: array<f32, 128>;
#else
var<workgroup> part: array<f32, 32>;
#endif
// Sum (or maximum) over the workgroup, in a fixed order.
fn all_lanes(v: f32, t: u32, is_max: bool, sg: u32, lane: u32, nsg: u32) -> f32 {
#if SUBGROUP
  var s: f32;
  if (is_max) { s = subgroupMax(v); } else { s = subgroupAdd(v); }
  if (lane == 0u) { part[sg] = s; }
  workgroupBarrier();
  var total = part[0];
  for (var i = 1u; i < nsg; i++) { if (is_max) { total = max(total, part[i]); } else { total += part[i]; } }
  workgroupBarrier();
  return total;
#else
  part[t] = v;
  workgroupBarrier();
  for (var s = 64u; s > 0u; s >>= 1u) {
    if (t < s) { if (is_max) { part[t] = max(part[t], part[t + s]); } else { part[t] = part[t] + part[t + s]; } }
    workgroupBarrier();
  }
  let total = part[0];
  workgroupBarrier();
  return total;
#endif
}
@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32
#if SUBGROUP
  , @builtin(subgroup_id) sg: u32, @builtin(subgroup_invocation_id) lane: u32, @builtin(num_subgroups) nsg: u32
#endif
) {
#if !SUBGROUP
  let sg = 0u;
  let lane = 0u;
  let nsg = 1u;
#endif
  let row = wg.y * n.x + wg.x;
  // Rows past the end repeat the last one, so that barriers stay uniform.
  let r = min(row, p.rows - 1u) * p.step + p.first;
  let x0 = p.x_off + r * p.d;
#if MODE == 0
  var top = -3.4e38;
  for (var i = t; i < p.d; i += 128u) { top = max(top, X_1(x0 + i)); }
  top = all_lanes(top, t, true, sg, lane, nsg);
  var sum = 0.0;
  for (var i = t; i < p.d; i += 128u) { sum += exp(X_1(x0 + i) - top); }
  sum = all_lanes(sum, t, false, sg, lane, nsg);
  let mean = top;
  let rstd = 1.0 / sum;
#else
  var mean = 0.0;
#if !RMS
#if VEC
  for (var i = t * 4u; i < p.d; i += 512u) { let v = X_4(x0 + i); mean += (v.x + v.y) + (v.z + v.w); }
#else
  for (var i = t; i < p.d; i += 128u) { mean += X_1(x0 + i); }
#endif
  mean = all_lanes(mean, t, false, sg, lane, nsg) / f32(p.d);
#endif
  var sq = 0.0;
#if VEC
  for (var i = t * 4u; i < p.d; i += 512u) { let v = X_4(x0 + i) - mean; sq += dot(v, v); }
#else
  for (var i = t; i < p.d; i += 128u) { let v = X_1(x0 + i) - mean; sq += v * v; }
#endif
  sq = all_lanes(sq, t, false, sg, lane, nsg);
  let rstd = 1.0 / sqrt(sq / f32(p.d) + p.eps);
#endif
  if (row >= p.rows) { return; }
#if MODE == 2
  if (t == 0u) {
    O_word(p.o_off + r * 2u, vec2<f32>(mean));
    O_word(p.o_off + r * 2u + 1u, vec2<f32>(rstd));
  }
#else
  let o0 = p.o_off + r * p.d;
#if VEC
  for (var i = t * 4u; i < p.d; i += 512u) { O_set4(o0 + i, result4(X_4(x0 + i), i, mean, rstd, r)); }
#elif OT == 0
  for (var i = t; i < p.d; i += 128u) { O_word(o0 + i, vec2<f32>(result(X_1(x0 + i), i, mean, rstd, r))); }
#else
  // Whole words; the first and last may belong half to a neighbouring row, so the host makes even
  // and odd rows in two dispatches (step 2).
  let w0 = o0 & 0xfffffffeu;
  for (var w = w0 + t * 2u; w < o0 + p.d; w += 256u) {
    var v = vec2<f32>(O_1(w), O_1(w + 1u));
    if (w >= o0) { v.x = result(X_1(x0 + (w - o0)), w - o0, mean, rstd, r); }
    if (w + 1u < o0 + p.d) { v.y = result(X_1(x0 + (w + 1u - o0)), w + 1u - o0, mean, rstd, r); }
    O_word(w, v);
  }
#endif
#endif
}
