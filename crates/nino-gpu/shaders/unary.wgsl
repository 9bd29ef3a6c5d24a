// act(x), and casts between activation types.
struct P { lo: u32, len: u32, row: u32, d: u32, o_off: u32, x_off: u32 }
#params
#include io
#include act
#bind O OT
#bind X XT
fn value(i: u32) -> f32 { return epi_act(X_1(p.x_off + i)); }
fn value4(i: u32) -> vec4<f32> {
  let x = X_4(p.x_off + i);
  return vec4<f32>(epi_act(x.x), epi_act(x.y), epi_act(x.z), epi_act(x.w));
}
#include each
