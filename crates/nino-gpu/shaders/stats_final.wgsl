// Combines the partial statistics of all chunks: one workgroup per batch element and group writes
// (mean, 1/std), or (0, 1/root mean square) with RMS. A fixed tree, so runs repeat exactly.
struct P { chunks: u32, len: u32, positions: u32, groups: u32, cpg: u32, s_off: u32, o_off: u32, eps: f32 }
#params
#include io
#bind O 0
#bind S 0
var<workgroup> acc: array<vec3<f32>, 64>;
fn join(a: vec3<f32>, b: vec3<f32>) -> vec3<f32> {
  let n = a.z + b.z;
  if (n == 0.0) { return a; }
  let d = b.x - a.x;
  return vec3<f32>(a.x + d * b.z / n, a.y + b.y + d * d * a.z * b.z / n, n);
}
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let b = wg.x / p.groups;
  let g = wg.x % p.groups;
  var mine = vec3<f32>(0.0);
  for (var i = t; i < p.chunks; i += 64u) {
    let s = p.s_off + ((b * p.chunks + i) * p.groups + g) * 2u;
    let n = min(p.len, p.positions - i * p.len) * p.cpg;
    mine = join(mine, vec3<f32>(S_1(s), S_1(s + 1u), f32(n)));
  }
  acc[t] = mine;
  workgroupBarrier();
  for (var s = 32u; s > 0u; s >>= 1u) {
    if (t < s) { acc[t] = join(acc[t], acc[t + s]); }
    workgroupBarrier();
  }
  if (t == 0u) {
    let v = acc[0];
    let o = p.o_off + wg.x * 2u;
#if RMS
    O_word(o, vec2<f32>(0.0));
    O_word(o + 1u, vec2<f32>(1.0 / sqrt(v.y / v.z + v.x * v.x + p.eps)));
#else
    O_word(o, vec2<f32>(v.x));
    O_word(o + 1u, vec2<f32>(1.0 / sqrt(v.y / v.z + p.eps)));
#endif
  }
}
