// act((x - mean) * rstd * weight + bias) with statistics per batch element and group, or per row. c
// is d once more, as the prologue calls it.
struct P { lo: u32, len: u32, row: u32, d: u32, o_off: u32, x_off: u32, s_off: u32, nw_off: u32, nb_off: u32, c: u32, groups: u32, rows_per: u32 }
#params
#include io
#include act
#bind O OT
#bind X XT
#bind S 0
#if PRO_W
#bind NW NWT
#endif
#if PRO_B
#bind NB NBT
#endif
#include prologue
fn value(i: u32) -> f32 { return pro1(X_1(p.x_off + i), row_of(i) / p.rows_per, col_of(i)); }
fn value4(i: u32) -> vec4<f32> { return pro4(X_4(p.x_off + i), row_of(i) / p.rows_per, col_of(i)); }
#include each
