// Slice, permute, nearest upsampling and padding: output (x0..x5) comes from input
// sum of stride_k * clamp(x_k / div_k - pad_k). MODE of the one padded axis AX: 1 constant,
// 2 replicate, 3 reflect.
struct P {
  lo: u32, len: u32, row: u32, d: u32, o_off: u32, x_off: u32,
  d1: u32, d2: u32, d3: u32, d4: u32,
  s0: u32, s1: u32, s2: u32, s3: u32, s4: u32, s5: u32,
  before: i32, size: i32, fill: f32, // the padded axis: values in front, input size
  divh: u32, divw: u32, // nearest upsampling of x3 and x4
}
#params
#include io
#bind O OT
#bind X XT
fn pad_index(x: u32) -> i32 {
  let i = i32(x) - p.before;
#if MODE == 2
  return clamp(i, 0, p.size - 1);
#elif MODE == 3
  let a = abs(i);
  return select(a, 2 * (p.size - 1) - a, a >= p.size);
#else
  return select(-1, i, i >= 0 && i < p.size);
#endif
}
// The input element, or 0xffffffff where the constant goes.
fn source(i: u32) -> u32 {
  var r = row_of(i);
  var x5 = col_of(i);
  var x4 = r % p.d4; r = r / p.d4;
  var x3 = r % p.d3; r = r / p.d3;
  var x2 = r % p.d2; r = r / p.d2;
  var x1 = r % p.d1; r = r / p.d1;
  var x0 = r;
#if NEAREST
  x3 = x3 / p.divh;
  x4 = x4 / p.divw;
#endif
#if MODE > 0
  let j = pad_index(x${AX});
  if (j < 0) { return 0xffffffffu; }
  x${AX} = u32(j);
#endif
  return p.x_off + x0 * p.s0 + x1 * p.s1 + x2 * p.s2 + x3 * p.s3 + x4 * p.s4 + x5 * p.s5;
}
fn value(i: u32) -> f32 {
  let s = source(i);
#if MODE == 1
  if (s == 0xffffffffu) { return p.fill; }
#endif
  return X_1(s);
}
fn value4(i: u32) -> vec4<f32> {
  let s = source(i);
#if MODE == 1
  if (s == 0xffffffffu) { return vec4<f32>(p.fill); }
#endif
  return X_4(s);
}
#include each
