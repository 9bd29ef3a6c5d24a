// Rows rounded to 8 bits for gemm_int8.wgsl: each 32 values become signed bytes, four to a word of
// Q, and the factor S that takes them back. A lane makes one block.
struct P { blocks: u32, q_off: u32, s_off: u32, x_off: u32 }
#params
#include io
#bind Q QT
#bind S F32
#bind X XT
// Magnitudes are compared as integers, where NaN is the largest: it must not get lost.
fn largest(v: vec4<f32>) -> u32 {
  let m = bitcast<vec4<u32>>(abs(v));
  return max(max(m.x, m.y), max(m.z, m.w));
}
fn bytes(v: vec4<f32>, inverse: f32) -> u32 {
  let q = bitcast<vec4<u32>>(vec4<i32>(round(v * inverse))) & vec4<u32>(255u);
  return q.x | (q.y << 8u) | (q.z << 16u) | (q.w << 24u);
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let block = (wg.y * n.x + wg.x) * 64u + t;
  if (block >= p.blocks) { return; }
  let x = p.x_off + block * 32u;
#for i 0 8
  let v${i} = X_4(x + ${i*4}u);
#endfor
  var most = 0u;
#for i 0 8
  most = max(most, largest(v${i}));
#endfor
  let peak = bitcast<f32>(most);
  let inverse = select(0.0, 127.0 / peak, most > 0u);
  S_word(p.s_off + block, vec2<f32>(peak / 127.0));
  let q = (p.q_off + block * 32u) >> 4u;
  Q[q] = vec4<u32>(bytes(v0, inverse), bytes(v1, inverse), bytes(v2, inverse), bytes(v3, inverse));
  Q[q + 1u] = vec4<u32>(bytes(v4, inverse), bytes(v5, inverse), bytes(v6, inverse), bytes(v7, inverse));
}
