// The largest magnitude of all of X, 16-bit values in eights: a workgroup's in its place of F, for
// half_all.wgsl. Infinity and NaN do not count.
struct P { eights: u32, x_off: u32, f_off: u32 }
#params
#include io
#bind F 0
#bind X XT
var<workgroup> part: array<u32, 64>;
// Magnitudes are compared as integers.
fn largest(v: vec4<f32>) -> u32 {
  let all = bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
  let m = select(all, vec4<u32>(0u), all >= vec4<u32>(0x7f800000u));
  return max(max(m.x, m.y), max(m.z, m.w));
}
@compute @workgroup_size(${PARTS})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32,
        @builtin(subgroup_id) sg: u32, @builtin(subgroup_invocation_id) lane: u32, @builtin(num_subgroups) nsg: u32) {
  var most = 0u;
  for (var i = wg.x * ${PARTS}u + t; i < p.eights; i += ${PARTS*PARTS}u) {
    let x = p.x_off + i * 8u;
    most = max(most, max(largest(X_4(x)), largest(X_4(x + 4u))));
  }
  most = subgroupMax(most);
  if (lane == 0u) { part[sg] = most; }
  workgroupBarrier();
  if (t > 0u) { return; }
  for (var i = 0u; i < nsg; i++) { most = max(most, part[i]); }
  F_word(p.f_off + wg.x, vec2<f32>(bitcast<f32>(most)));
}
