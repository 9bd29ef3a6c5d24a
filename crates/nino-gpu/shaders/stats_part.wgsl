// Partial statistics of groups of channels: one workgroup per chunk of len positions of x
// [b, positions, c] writes (mean, sum of squared deviations) per group to S [b, chunks, groups, 2].
// A lane takes V neighbouring channels of every PP-th position; V (4, 2 or 1) divides the group.
struct P { first: u32, chunks: u32, len: u32, positions: u32, c: u32, groups: u32, x_off: u32, s_off: u32, lanes: u32, pp: u32 }
#params
#include io
#bind S 0
#bind X XT
#if V == 1
alias VF = f32;
#else
alias VF = vec${V}<f32>;
#endif
#define SIZE 1280
var<workgroup> acc: array<vec2<f32>, ${SIZE}>; // mean and squared deviations of a lane's V channels
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let chunk = p.first + wg.x;
  let b = chunk / p.chunks;
  let p0 = (chunk % p.chunks) * p.len;
  let p1 = min(p0 + p.len, p.positions);
  let count = p1 - p0;
  // lanes = c / V; pp = positions taken side by side (1 when lanes > 256).
  for (var q = t; q < p.lanes * p.pp; q += 256u) {
    let ch = (q % p.lanes) * ${V}u;
    let base = p.x_off + b * p.positions * p.c + ch;
    var n = 0.0;
    // Sums of differences from the first value: no cancellation when the mean is large.
    var s = VF(0.0);
    var ss = VF(0.0);
    let start = p0 + q / p.lanes;
    let x0 = load(base + min(start, p1 - 1u) * p.c);
    var i = start;
    // Eight loads in flight: one at a time leaves memory idle.
    for (; i + 7u * p.pp < p1; i += 8u * p.pp) {
#for k 0 8
      let d${k} = load(base + (i + ${k}u * p.pp) * p.c) - x0;
#endfor
#for k 0 8
      s += d${k};
      ss += d${k} * d${k};
#endfor
      n += 8.0;
    }
    for (; i < p1; i += p.pp) {
      let d = load(base + i * p.c) - x0;
      s += d;
      ss += d * d;
      n += 1.0;
    }
    let mean = s / max(n, 1.0);
    let dev = ss - s * mean;
    acc[q] = merge(x0 + mean, dev, n);
  }
  workgroupBarrier();
  let per = p.lanes / p.groups; // lanes of a group
  for (var g = t; g < p.groups; g += 256u) {
    var n = 0.0;
    var mean = 0.0;
    var m2 = 0.0;
    for (var j = 0u; j < p.pp; j++) {
      if (j >= count) { break; }
      let nj = f32((count - j + p.pp - 1u) / p.pp) * ${V}.0;
      for (var k = 0u; k < per; k++) {
        let e = acc[j * p.lanes + g * per + k];
        let d = e.x - mean;
        let total = n + nj;
        mean += d * nj / total;
        m2 += e.y + d * d * n * nj / total;
        n = total;
      }
    }
    let o = p.s_off + (chunk * p.groups + g) * 2u;
    S_word(o, vec2<f32>(mean));
    S_word(o + 1u, vec2<f32>(m2));
  }
}
#if V == 4
fn load(i: u32) -> vec4<f32> { return X_4(i); }
fn merge(mean: vec4<f32>, dev: vec4<f32>, n: f32) -> vec2<f32> {
  let m = (mean.x + mean.y + mean.z + mean.w) * 0.25;
  let d = mean - m;
  return vec2<f32>(m, dev.x + dev.y + dev.z + dev.w + n * dot(d, d));
}
#elif V == 2
fn load(i: u32) -> vec2<f32> { return vec2<f32>(X_1(i), X_1(i + 1u)); }
fn merge(mean: vec2<f32>, dev: vec2<f32>, n: f32) -> vec2<f32> {
  let m = (mean.x + mean.y) * 0.5;
  let d = mean - m;
  return vec2<f32>(m, dev.x + dev.y + n * dot(d, d));
}
#else
fn load(i: u32) -> f32 { return X_1(i); }
fn merge(mean: f32, dev: f32, n: f32) -> vec2<f32> { return vec2<f32>(mean, dev); }
#endif
