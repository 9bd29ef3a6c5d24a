// The same product as gemm.wgsl for ROWS rows, a few: a workgroup makes four columns of them, and
// its lanes share K, so that every weight is read once and from memory in whole lines. A lane's
// next AHEAD reads of each column do not wait for one another.
#include gemm_bind
var<workgroup> part: array<vec4<f32>, ${LANES*ROWS}>;
@compute @workgroup_size(${LANES})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let n = (wg.y * groups.x + wg.x) * 4u;
  a_begin(0u, 0u);
#for r 0 ROWS
  let row${r} = a_row(${r}u, 0u);
  let off${r} = a_offset(row${r}, 0u);
  var s${r} = vec4<f32>(0.0);
#endfor
  for (var k = t * 4u; k < p.k; k += ${LANES*4*AHEAD}u) {
#for u 0 AHEAD
    let k${u} = k + ${LANES*4*u}u;
    let w${u} = mat4x4<f32>(w_load4(n, k${u}, 0u), w_load4(n + 1u, k${u}, 0u), w_load4(n + 2u, k${u}, 0u), w_load4(n + 3u, k${u}, 0u));
#endfor
#for r 0 ROWS
#for u 0 AHEAD
    s${r} += a_load4(row${r}, off${r}, k${u}, 0u) * w${u};
#endfor
#endfor
  }
#for r 0 ROWS
  part[t + ${LANES*r}u] = s${r};
#endfor
  workgroupBarrier();
  for (var half = ${LANES/2}u; half > 0u; half >>= 1u) {
    if (t < half) {
#for r 0 ROWS
      part[t + ${LANES*r}u] += part[t + ${LANES*r}u + half];
#endfor
    }
    workgroupBarrier();
  }
  if (t == 0u) {
#for r 0 ROWS
    store4(${r}u, n, 0u, part[${LANES*r}u]);
#endfor
  }
}
