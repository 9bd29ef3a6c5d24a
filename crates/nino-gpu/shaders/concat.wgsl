// Operands N side by side along an axis: output = (outer, along, inner). A dispatch fills the part
// base .. base + sum of its sizes of the axis and leaves the rest as it is.
struct P {
  lo: u32, hi: u32, o_off: u32, inner: u32, total: u32, base: u32,
#for i 0 N
  x${i}_off: u32, n${i}: u32,
#endfor
}
#params
#include io
#bind O OT
#for i 0 N
#bind X${i} OT
#endfor
fn value(i: u32) -> f32 {
  let x = i % p.inner;
  var a = (i / p.inner) % p.total - p.base;
  let outer = i / p.inner / p.total;
#for i 0 N
  if (a < p.n${i}) { return X${i}_1(p.x${i}_off + (outer * p.n${i} + a) * p.inner + x); }
  a -= p.n${i};
#endfor
  return O_1(p.o_off + i);
}
#if VEC
// inner times every size is a multiple of 4, so four neighbours come from one operand.
fn value4(i: u32) -> vec4<f32> {
  let row = p.inner * p.total;
  var a = i % row - p.base * p.inner;
  let outer = i / row;
#for i 0 N
  if (a < p.n${i} * p.inner) { return X${i}_4(p.x${i}_off + outer * p.n${i} * p.inner + a); }
  a -= p.n${i} * p.inner;
#endfor
  return O_4(p.o_off + i);
}
#endif
#include each
