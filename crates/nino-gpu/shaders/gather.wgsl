// Rows of a table in any storage type by index: O[r, d] = W[I[r], d].
struct P { lo: u32, len: u32, row: u32, d: u32, o_off: u32, w_off: u32, i_off: u32, rows: u32 }
#params
#include io
#bind O OT
#bind W WT
#bind I 5
#include weight
fn row(i: u32) -> u32 {
  let at = p.i_off + row_of(i);
  return p.w_off + min(I[at >> 2u][at & 3u], p.rows - 1u) * p.d + col_of(i);
}
fn value(i: u32) -> f32 { return w1(row(i)); }
fn value4(i: u32) -> vec4<f32> { return w4(row(i)); }
#include each
