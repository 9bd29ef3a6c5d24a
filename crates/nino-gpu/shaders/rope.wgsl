// Rotates pairs of x [b, n, heads, hd] by T [n, hd/2, 2] of (cos, sin); pairs are neighbours, or
// halves apart with HALVES.
struct P { lo: u32, hi: u32, o_off: u32, x_off: u32, t_off: u32, n: u32, heads: u32, hd: u32 }
#params
#include io
#bind O OT
#bind X XT
#bind T 0
fn value(i: u32) -> f32 {
  let d = i % p.hd;
  let pos = i / p.hd / p.heads % p.n;
  let half = p.hd / 2u;
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
