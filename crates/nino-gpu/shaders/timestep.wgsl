// Sinusoidal embedding of timesteps: [b] -> [b, dim] of cos and sin of t * period^(-i / (half - shift)).
struct P { lo: u32, hi: u32, o_off: u32, x_off: u32, dim: u32, sin_first: u32, rate: f32 }
#params
#include io
#bind O 0
#bind X 0
fn value(i: u32) -> f32 {
  let half = p.dim / 2u;
  let d = i % p.dim;
  let angle = X_1(p.x_off + i / p.dim) * exp(p.rate * f32(d % half));
  // Argument reduction by hand: some drivers lose accuracy beyond a few periods.
  let turns = angle * 0.15915494309189535;
  let r = (turns - round(turns)) * 6.283185307179586;
  return select(cos(r), sin(r), (d >= half) != (p.sin_first == 1u));
}
#include each
