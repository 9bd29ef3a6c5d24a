// Weights of any storage type as f16.
struct P { lo: u32, len: u32, row: u32, d: u32, o_off: u32, w_off: u32 }
#params
#include io
#bind O OT
#bind W WT
#include weight
fn value(i: u32) -> f32 { return w1(p.w_off + i); }
fn value4(i: u32) -> vec4<f32> { return w4(p.w_off + i); }
#include each
