// Rows as f16 for matrix units that take nothing else: each row of W, k values of any storage type,
// times the power of two that brings its largest value just below 2^15, to O; and what takes it
// back to F. bf16 values keep all their bits down to 2^-28 of the largest. k is a multiple of 8. A
// workgroup makes a row.
struct P { rows: u32, k: u32, o_off: u32, f_off: u32, w_off: u32 }
#params
#include io
#bind O 1
#bind F 0
#bind W WT
#include weight
var<workgroup> part: array<u32, 32>;
// Magnitudes are compared as integers, where infinity and NaN are the largest.
fn largest(v: vec4<f32>) -> u32 {
  let m = bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
  return max(max(m.x, m.y), max(m.z, m.w));
}
@compute @workgroup_size(${LANES})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32,
        @builtin(subgroup_id) sg: u32, @builtin(subgroup_invocation_id) lane: u32, @builtin(num_subgroups) nsg: u32) {
  let row = wg.y * n.x + wg.x;
  // Rows past the end read the last one, so that barriers stay uniform.
  let x = p.w_off + min(row, p.rows - 1u) * p.k;
  var most = 0u;
  for (var i = t * 8u; i < p.k; i += ${LANES*8}u) {
    most = max(most, max(largest(w4(x + i)), largest(w4(x + i + 4u))));
  }
  most = subgroupMax(most);
  if (lane == 0u) { part[sg] = most; }
  workgroupBarrier();
  for (var i = 0u; i < nsg; i++) { most = max(most, part[i]); }
  if (row >= p.rows) { return; }
  // The exponent of the largest with its bias of 127; above 15, so that the factor stays normal.
  let top = max(most >> 23u, 16u);
  let scale = bitcast<f32>((268u - top) << 23u);
  let o = p.o_off + row * p.k;
  for (var i = t * 8u; i < p.k; i += ${LANES*8}u) {
    O_set8(o + i, w4(x + i) * scale, w4(x + i + 4u) * scale);
  }
  if (t == 0u) { F_word(p.f_off + row, vec2<f32>(bitcast<f32>((top - 14u) << 23u))); }
}
