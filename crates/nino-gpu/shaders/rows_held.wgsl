// Layer or RMS norm of rows that lanes hold in registers, so that each is read once. L lanes have a
// row, HELD vectors of 16 bytes each (N in all), and a workgroup has a row for every L of its 128
// lanes, ROUNDS times. Loads of all rounds come first: memory is as fast as much of it is on its
// way. With SHUFFLE a row's lanes are in one subgroup, however wide that is.
#include rows_bind
#if XT == 0
#define E 4
fn sum(v: vec4<u32>) -> f32 { return dot(bitcast<vec4<f32>>(v), vec4<f32>(1.0)); }
fn squares(v: vec4<u32>, mean: f32) -> f32 {
  let a = bitcast<vec4<f32>>(v) - mean;
  return dot(a, a);
}
#else
#define E 8
fn lo(v: vec4<u32>) -> vec4<f32> { return vec4<f32>(X_unpack(v.x), X_unpack(v.y)); }
fn hi(v: vec4<u32>) -> vec4<f32> { return vec4<f32>(X_unpack(v.z), X_unpack(v.w)); }
fn sum(v: vec4<u32>) -> f32 { return dot(lo(v) + hi(v), vec4<f32>(1.0)); }
fn squares(v: vec4<u32>, mean: f32) -> f32 {
  let a = lo(v) - mean;
  let b = hi(v) - mean;
  return dot(a, a) + dot(b, b);
}
#endif
// Sum over a row's lanes, for all of them and in a fixed order.
#if SHUFFLE
fn row_sum(v: f32, t: u32) -> f32 {
  var s = v;
#define M 1
#for b 0 7
#if M < L
  s += subgroupShuffleXor(s, ${M}u);
#endif
#define M M*2
#endfor
  return s;
}
#else
var<workgroup> part: array<f32, 128>;
fn row_sum(v: f32, t: u32) -> f32 {
  let c = t % ${L}u;
  part[t] = v;
  workgroupBarrier();
  for (var s = ${L/2}u; s > 0u; s >>= 1u) {
    if (c < s) { part[t] = part[t] + part[t + s]; }
    workgroupBarrier();
  }
  let total = part[t - c];
  workgroupBarrier();
  return total;
}
#endif
@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>,
#if SHUFFLE
  @builtin(subgroup_id) sg: u32, @builtin(subgroup_size) width: u32, @builtin(subgroup_invocation_id) lane: u32) {
  let t = sg * width + lane;
#else
  @builtin(local_invocation_index) t: u32) {
#endif
  let c = t % ${L}u;
  let first = (wg.y * n.x + wg.x) * ${128/L*ROUNDS}u + t / ${L}u;
#for k 0 HELD
#if (k+1)*L > N
  let has${k} = c < ${N-k*L}u;
#else
  let has${k} = true;
#endif
#endfor
  // Lanes beyond the last row go on, for the others' sums.
#for j 0 ROUNDS
  let in${j} = first + ${128/L*j}u < p.rows;
  let r${j} = p.first + first + ${128/L*j}u;
  let x${j} = (p.x_off + r${j} * p.d) / ${E}u + c;
#for k 0 HELD
  var v${j}_${k} = vec4<u32>(0u);
  if (in${j} && has${k}) { v${j}_${k} = X[x${j} + ${k*L}u]; }
#endfor
#endfor
#for j 0 ROUNDS
  var mean${j} = 0.0;
#if !RMS
#for k 0 HELD
  mean${j} += sum(v${j}_${k});
#endfor
  mean${j} = row_sum(mean${j}, t) / f32(p.d);
#endif
  var sq${j} = 0.0;
#for k 0 HELD
  if (has${k}) { sq${j} += squares(v${j}_${k}, mean${j}); }
#endfor
  let rstd${j} = 1.0 / sqrt(row_sum(sq${j}, t) / f32(p.d) + p.eps);
#endfor
#for k 0 HELD
  if (has${k}) {
    let i = (c + ${k*L}u) * ${E}u;
    let own = own4(i);
#if E == 8
    let next = own4(i + 4u);
#endif
#for j 0 ROUNDS
    if (in${j}) {
      let o = p.o_off + r${j} * p.d + i;
#if E == 8
      let y0 = finish4((lo(v${j}_${k}) - mean${j}) * rstd${j}, own, i, r${j});
      let y1 = finish4((hi(v${j}_${k}) - mean${j}) * rstd${j}, next, i + 4u, r${j});
      O_set8(o, y0, y1);
#else
      O_set4(o, finish4((bitcast<vec4<f32>>(v${j}_${k}) - mean${j}) * rstd${j}, own, i, r${j}));
#endif
    }
#endfor
  }
#endfor
}
