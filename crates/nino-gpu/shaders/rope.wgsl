// Rotates pairs of x [b, n, heads, d] by T [n, d/2, 2] of (cos, sin); pairs are neighbours, or
// halves apart with HALVES.
struct P { lo: u32, len: u32, row: u32, d: u32, o_off: u32, x_off: u32, t_off: u32, n: u32, heads: u32 }
#params
#include io
#bind O OT
#bind X XT
#bind T 0
fn value(i: u32) -> f32 {
  let d = col_of(i);
  let pos = row_of(i) / p.heads % p.n;
  let half = p.d / 2u;
#if HALVES
  let pair = d % half;
  let second = d >= half;
  let mate = select(i + half, i - half, second);
#else
  let pair = d / 2u;
  let second = (d & 1u) == 1u;
  let mate = i ^ 1u;
#endif
  let t = p.t_off + (pos * half + pair) * 2u;
  let x = X_1(p.x_off + i);
  let y = X_1(p.x_off + mate);
  return x * T_1(t) + select(-y, y, second) * T_1(t + 1u);
}
#include each
