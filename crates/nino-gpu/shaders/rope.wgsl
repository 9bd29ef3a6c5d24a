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
#if VEC
// Four neighbours, which are two pairs, or halves of four.
fn value4(i: u32) -> vec4<f32> {
  let d = col_of(i);
  let pos = row_of(i) / p.heads % p.n;
  let half = p.d / 2u;
  let x = X_4(p.x_off + i);
#if HALVES
  let second = d >= half;
  let t = p.t_off + (pos * half + select(d, d - half, second)) * 2u;
  let a = T_4(t);
  let b = T_4(t + 4u);
  let y = X_4(p.x_off + select(i + half, i - half, second));
  return x * vec4<f32>(a.xz, b.xz) + select(-y, y, second) * vec4<f32>(a.yw, b.yw);
#else
  let t = T_4(p.t_off + (pos * half + d / 2u) * 2u);
  return x * t.xxzz + vec4<f32>(-x.y, x.x, -x.w, x.z) * t.yyww;
#endif
}
#endif
#include each
