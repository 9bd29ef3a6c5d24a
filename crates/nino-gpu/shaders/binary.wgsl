// a F b with broadcasting: F is 0 add, 1 sub, 2 mul, 3 div. Output dimensions d0 (outermost) to d4
// and d; strides are 0 where an operand repeats. SAME: the shapes are equal.
struct P {
  lo: u32, len: u32, row: u32, d: u32, o_off: u32, a_off: u32, b_off: u32,
  d1: u32, d2: u32, d3: u32, d4: u32,
  a0: u32, a1: u32, a2: u32, a3: u32, a4: u32, a5: u32,
  b0: u32, b1: u32, b2: u32, b3: u32, b4: u32, b5: u32,
}
#params
#include io
#bind O OT
#bind A AT
#bind B BT
fn apply4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
#if F == 0
  return a + b;
#elif F == 1
  return a - b;
#elif F == 2
  return a * b;
#else
  return a / b;
#endif
}
fn indices(i: u32) -> vec2<u32> {
  var r = row_of(i);
  var at = vec2<u32>(p.a_off, p.b_off);
  let x5 = col_of(i);
  let x4 = r % p.d4; r = r / p.d4;
  let x3 = r % p.d3; r = r / p.d3;
  let x2 = r % p.d2; r = r / p.d2;
  let x1 = r % p.d1; r = r / p.d1;
  at.x += r * p.a0 + x1 * p.a1 + x2 * p.a2 + x3 * p.a3 + x4 * p.a4 + x5 * p.a5;
  at.y += r * p.b0 + x1 * p.b1 + x2 * p.b2 + x3 * p.b3 + x4 * p.b4 + x5 * p.b5;
  return at;
}
#if SAME
fn value(i: u32) -> f32 { return apply4(vec4<f32>(A_1(p.a_off + i)), vec4<f32>(B_1(p.b_off + i))).x; }
fn value4(i: u32) -> vec4<f32> { return apply4(A_4(p.a_off + i), B_4(p.b_off + i)); }
#else
fn value(i: u32) -> f32 {
  let at = indices(i);
  return apply4(vec4<f32>(A_1(at.x)), vec4<f32>(B_1(at.y))).x;
}
#if VEC
// The last dimension is a multiple of 4, and each operand has it whole or repeats one value.
fn value4(i: u32) -> vec4<f32> {
  let at = indices(i);
#if AONE
  let a = vec4<f32>(A_1(at.x));
#else
  let a = A_4(at.x);
#endif
#if BONE
  let b = vec4<f32>(B_1(at.y));
#else
  let b = B_4(at.y);
#endif
  return apply4(a, b);
}
#endif
#endif
#include each
