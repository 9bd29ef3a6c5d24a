// The same as normalize.wgsl for group statistics of 16-bit values, at memory speed: a lane always
// has the same eight channels, so their statistics and weights stay in registers while it walks
// over positions, four loads in flight. y is the batch element.
struct P { lo: u32, hi: u32, o_off: u32, x_off: u32, s_off: u32, nw_off: u32, nb_off: u32, c: u32, groups: u32, rows_per: u32, lanes: u32, stride: u32, first: u32 }
#params
#include io
#include act
#bind O OT
#bind X XT
#bind S 0
#if PRO_W
#bind NW NWT
#endif
#if PRO_B
#bind NB NBT
#endif
fn finish(y: vec4<f32>) -> vec4<f32> { return vec4<f32>(pro_act(y.x), pro_act(y.y), pro_act(y.z), pro_act(y.w)); }
fn apply(v: vec4<u32>, m0: vec4<f32>, m1: vec4<f32>, a0: vec4<f32>, a1: vec4<f32>, b0: vec4<f32>, b1: vec4<f32>) -> vec4<u32> {
  let x0 = vec4<f32>(X_unpack(v.x), X_unpack(v.y));
  let x1 = vec4<f32>(X_unpack(v.z), X_unpack(v.w));
  let y0 = finish((x0 - m0) * a0 + b0);
  let y1 = finish((x1 - m1) * a1 + b1);
  return vec4<u32>(O_pack(y0.xy), O_pack(y0.zw), O_pack(y1.xy), O_pack(y1.zw));
}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let g = wg.x * 256u + t;
  let ch = (g % p.lanes) * 8u;
  let start = g / p.lanes;
  if (start >= p.stride) { return; }
  let b = p.first + wg.y;
  let row0 = max(p.lo, b * p.rows_per); // rows of this dispatch in this batch element
  let row1 = min(p.hi, (b + 1u) * p.rows_per);
  let cpg = p.c / p.groups;
  let s0 = p.s_off + (b * p.groups + ch / cpg) * 2u;
  let s1 = p.s_off + (b * p.groups + (ch + 4u) / cpg) * 2u;
  let m0 = vec4<f32>(S_1(s0));
  let m1 = vec4<f32>(S_1(s1));
  var a0 = vec4<f32>(S_1(s0 + 1u));
  var a1 = vec4<f32>(S_1(s1 + 1u));
  var b0 = vec4<f32>(0.0);
  var b1 = vec4<f32>(0.0);
#if PRO_W
  a0 *= NW_4(p.nw_off + ch);
  a1 *= NW_4(p.nw_off + ch + 4u);
#endif
#if PRO_B
  b0 = NB_4(p.nb_off + ch);
  b1 = NB_4(p.nb_off + ch + 4u);
#endif
  let step = p.stride * p.c / 8u;
  let rows = row1 - row0;
  var i = start;
  var x = (p.x_off + (row0 + start) * p.c + ch) / 8u;
  var o = (p.o_off + (row0 + start) * p.c + ch) / 8u;
  for (; i + 3u * p.stride < rows; i += 4u * p.stride) {
#for k 0 4
    let v${k} = X[x + ${k}u * step];
#endfor
#for k 0 4
    O[o + ${k}u * step] = apply(v${k}, m0, m1, a0, a1, b0, b1);
#endfor
    x += 4u * step;
    o += 4u * step;
  }
  for (; i < rows; i += p.stride) {
    O[o] = apply(X[x], m0, m1, a0, a1, b0, b1);
    x += step;
    o += step;
  }
}
