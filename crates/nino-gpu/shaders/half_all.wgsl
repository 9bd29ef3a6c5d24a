// All of X as f16 for matrix units that take nothing else: times the power of two that brings the
// largest finite magnitude, of those that half_peak.wgsl left in F, just below 2^15. What takes it
// back goes behind them. A lane makes EACH times eight values.
struct P { eights: u32, o_off: u32, x_off: u32, f_off: u32 }
#params
#include io
#bind O 1
#bind F 0
#bind X XT
var<workgroup> part: array<u32, 64>;
@compute @workgroup_size(${PARTS})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32,
        @builtin(subgroup_id) sg: u32, @builtin(subgroup_invocation_id) lane: u32, @builtin(num_subgroups) nsg: u32) {
  var most = subgroupMax(bitcast<u32>(F_1(p.f_off + t)));
  if (lane == 0u) { part[sg] = most; }
  workgroupBarrier();
  for (var i = 0u; i < nsg; i++) { most = max(most, part[i]); }
  // As in half_rows.wgsl.
  let top = max(most >> 23u, 16u);
  let scale = bitcast<f32>((268u - top) << 23u);
  let group = wg.y * n.x + wg.x;
#for e 0 EACH
  let i${e} = (group * ${EACH}u + ${e}u) * ${PARTS}u + t;
  if (i${e} < p.eights) {
    let x = p.x_off + i${e} * 8u;
    O_set8(p.o_off + i${e} * 8u, X_4(x) * scale, X_4(x + 4u) * scale);
  }
#endfor
  if (group == 0u && t == 0u) { F_word(p.f_off + ${PARTS}u, vec2<f32>(bitcast<f32>((top - 14u) << 23u))); }
}
