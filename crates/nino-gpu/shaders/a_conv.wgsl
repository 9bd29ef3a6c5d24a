// A = the taps of a convolution over X [b, t, h, w, c]: row m is an output position, column
// (tap, channel). The input is seen UP times as large, each pixel repeated.
const NONE = 0xffffffffu;
#define TAPS KT*KH*KW
var<private> tap: u32;
var<private> chan: u32;
fn a_begin(k: u32, z: u32) { tap = k / p.c; chan = k % p.c; }
fn a_row(m: u32, z: u32) -> u32 { return m + p.first; }
// Where the row's pixel under the present tap starts. Recomputed from the row at each tap: keeping
// positions of all rows in registers costs more.
fn a_offset(row: u32, z: u32) -> u32 {
  if (row - p.first >= p.m || tap >= ${TAPS}u) { return NONE; }
  let gy = row / p.ow;
  let gt = gy / p.oh;
  let b = gt / p.ot;
#if KT > 1
  let kt = i32(tap / ${KH*KW}u);
  let k2 = tap % ${KH*KW}u;
#else
  let kt = 0;
  let k2 = tap;
#endif
  let t = i32(gt % p.ot) * ${ST} + kt * ${DT} - p.pt;
  let y = i32(gy % p.oh) * ${SH} + i32(k2 / ${KW}u) * ${DH} - p.ph;
  let x = i32(row % p.ow) * ${SW} + i32(k2 % ${KW}u) * ${DW} - p.pw;
  if (t < 0 || t >= i32(p.t) || y < 0 || y >= i32(p.h) || x < 0 || x >= i32(p.w)) { return NONE; }
#if UP > 1
  return p.x_off + (((b * p.t + u32(t)) * (p.h / ${UP}u) + u32(y) / ${UP}u) * (p.w / ${UP}u) + u32(x) / ${UP}u) * p.c;
#else
  return p.x_off + (((b * p.t + u32(t)) * p.h + u32(y)) * p.w + u32(x)) * p.c;
#endif
}
fn a_advance(by: u32) -> bool {
  chan += by;
  if (chan < p.c) { return false; }
  while (chan >= p.c) { chan -= p.c; tap += 1u; }
  return true;
}
#if COOP
// Outside, any value is read and made zero when used.
fn a_load(off: u32, k: u32) -> mat2x4<f16> { return X[select(off + chan, 0u, off == NONE) >> 3u]; }
fn a_ready(v: mat2x4<f16>, row: u32, off: u32, k: u32) -> mat2x4<f16> {
  if (off == NONE) { return mat2x4<f16>(); }
#if PRO
  return pro8(v, row / (p.ow * p.oh * p.ot), chan);
#else
  return v;
#endif
}
#else
fn a_load4(row: u32, off: u32, k: u32, z: u32) -> vec4<f32> {
#if VA
  if (off == NONE) { return vec4<f32>(0.0); }
  var v = X_4(off + chan);
#if PRO
  v = pro4(v, row / (p.ow * p.oh * p.ot), chan);
#endif
  return v;
#else
  // Channel counts that are no multiple of 4: each of the four may belong to another tap.
  var v = vec4<f32>(0.0);
  let tap0 = tap;
  let chan0 = chan;
  for (var i = 0u; i < 4u; i++) {
    let o = a_offset(row, z);
    if (o != NONE) {
      v[i] = X_1(o + chan);
#if PRO
      v[i] = pro1(v[i], row / (p.ow * p.oh * p.ot), chan);
#endif
    }
    chan += 1u;
    if (chan == p.c) { chan = 0u; tap += 1u; }
  }
  tap = tap0;
  chan = chan0;
  return v;
#endif
}
#endif
