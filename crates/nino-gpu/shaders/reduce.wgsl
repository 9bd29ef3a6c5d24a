// One axis reduced to size 1: input (outer, n, d), output (outer, d): what is
// behind the axis is a row. F: 0 sum, 1 mean, 2 max.
struct P { lo: u32, len: u32, row: u32, d: u32, o_off: u32, x_off: u32, n: u32 }
#params
#include io
#bind O OT
#bind X XT
fn value(i: u32) -> f32 {
  let base = p.x_off + i + row_of(i) * (p.n - 1u) * p.d;
  var v = X_1(base);
  for (var k = 1u; k < p.n; k++) {
    let x = X_1(base + k * p.d);
#if F == 2
    v = max(v, x);
#else
    v = v + x;
#endif
  }
#if F == 1
  v = v / f32(p.n);
#endif
  return v;
}
#include each
