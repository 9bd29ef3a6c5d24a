// Operands N side by side along an axis. The output is blocks, one for each place in front of the
// axis; a block is rows of d values (ROWS), or one row. Of a block a dispatch fills, from base on,
// n0 rows (or values) of the first operand, then n1 of the second, and leaves the rest as it is.
struct P {
  lo: u32, len: u32, row: u32, d: u32, o_off: u32, block: u32, base: u32,
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
#for v 0 2
#if v == 0
fn value(i: u32) -> f32 {
#else
// Every part is a multiple of 4 values, so four neighbours come from one operand.
fn value4(i: u32) -> vec4<f32> {
#endif
  let row = row_of(i);
#if ROWS
  let outer = row / p.block;
  var a = row - outer * p.block - p.base;
  let each = p.d;
  let col = col_of(i);
#else
  let outer = row;
  var a = col_of(i) - p.base;
  let each = 1u;
  let col = 0u;
#endif
#for k 0 N
  if (a < p.n${k}) { return X${k}_${1+3*v}(p.x${k}_off + (outer * p.n${k} + a) * each + col); }
  a -= p.n${k};
#endfor
  return O_${1+3*v}(p.o_off + i);
}
#endfor
#include each
