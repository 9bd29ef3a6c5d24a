// Sinusoidal embedding of timesteps: [b] -> [b, d] of cos and sin of t * period^(-i / (half -
// shift)).
struct P { lo: u32, len: u32, row: u32, d: u32, o_off: u32, x_off: u32, sin_first: u32, rate: f32 }
#params
#include io
#bind O 0
#bind X 0
fn value(i: u32) -> f32 {
  let half = p.d / 2u;
  let d = col_of(i);
  let angle = X_1(p.x_off + row_of(i)) * exp(p.rate * f32(d % half));
  // Argument reduction by hand: some drivers lose accuracy beyond a few periods.
  let turns = angle * 0.15915494309189535;
  let r = (turns - round(turns)) * 6.283185307179586;
  return select(cos(r), sin(r), (d >= half) != (p.sin_first == 1u));
}
#include each
