// The same product as gemm.wgsl, a 32-bit word of output per lane: for 16-bit outputs of odd width,
// where tiles would share words.
#include gemm_bind
fn value(i: u32) -> f32 {
  let z = i / (p.m * p.n);
  let m = i / p.n % p.m;
  let n = i % p.n;
  a_begin(0u, z);
  let row = a_row(m, z);
  var off = a_offset(row, z);
  var sum = 0.0;
  for (var k = 0u; k < p.k; k += 4u) {
    sum += dot(a_load4(row, off, k, z), w_load4(n, k, z));
    if (a_advance(4u)) { off = a_offset(row, z); }
  }
  return finish4(vec4<f32>(sum), m, n, z).x;
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let total = p.m * p.n * ${BATCH}u;
  let w = (p.o_off & 0xfffffffeu) + ((wg.y * n.x + wg.x) * 64u + t) * 2u;
  let i = w - p.o_off;
  let in0 = i < total;
  let in1 = i + 1u < total;
  if (!in0 && !in1) { return; }
  var v = vec2<f32>(O_1(w), O_1(w + 1u));
  if (in0) { v.x = value(i); }
  if (in1) { v.y = value(i + 1u); }
  O_word(w, v);
}
