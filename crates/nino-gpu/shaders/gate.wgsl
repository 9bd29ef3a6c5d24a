// The first half of a row of 2d times the activated second half.
struct P { lo: u32, len: u32, row: u32, d: u32, o_off: u32, x_off: u32 }
#params
#include io
#include act
#bind O OT
#bind X XT
fn first(i: u32) -> u32 { return p.x_off + i + row_of(i) * p.d; }
fn value(i: u32) -> f32 {
  let at = first(i);
  return X_1(at) * epi_act(X_1(at + p.d));
}
fn value4(i: u32) -> vec4<f32> {
  let at = first(i);
  let g = X_4(at + p.d);
  return X_4(at) * vec4<f32>(epi_act(g.x), epi_act(g.y), epi_act(g.z), epi_act(g.w));
}
#include each
