// Layer or RMS norm of 16-bit rows that a subgroup holds in its registers, HELD times eight values a
// lane: a row is read once, and nobody waits for anybody. Four rows a workgroup.
#include rows_bind
@compute @workgroup_size(${SG * 4})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(subgroup_id) sg: u32, @builtin(subgroup_invocation_id) lane: u32) {
  let row = (wg.y * n.x + wg.x) * 4u + sg;
  if (row >= p.rows) { return; }
  let r = row + p.first;
  let eights = p.d / 8u;
  let x0 = (p.x_off + r * p.d) / 8u;
  var mean = 0.0;
#for k 0 HELD
  let i${k} = lane + ${k * SG}u;
  var lo${k} = vec4<f32>(0.0);
  var hi${k} = vec4<f32>(0.0);
  if (i${k} < eights) {
    let v = X[x0 + i${k}];
    lo${k} = vec4<f32>(X_unpack(v.x), X_unpack(v.y));
    hi${k} = vec4<f32>(X_unpack(v.z), X_unpack(v.w));
  }
#endfor
#if !RMS
#for k 0 HELD
  mean += dot(lo${k} + hi${k}, vec4<f32>(1.0));
#endfor
  mean = subgroupAdd(mean) / f32(p.d);
#endif
  var sq = 0.0;
#for k 0 HELD
  if (i${k} < eights) {
    let a = lo${k} - mean;
    let b = hi${k} - mean;
    sq += dot(a, a) + dot(b, b);
  }
#endfor
  let rstd = 1.0 / sqrt(subgroupAdd(sq) / f32(p.d) + p.eps);
  let b = r / p.rows_per;
  let o0 = p.o_off + r * p.d;
#for k 0 HELD
  if (i${k} < eights) {
    let i = i${k} * 8u;
    O_set8(o0 + i, result4(lo${k}, i, mean, rstd, b), result4(hi${k}, i + 4u, mean, rstd, b));
  }
#endfor
}
