// Parameters shared by the matrix kernels; `Gemm` in src/ops/gemm.rs writes them in this order.
// Offsets are in elements and relative to what is bound, so they may wrap below zero.
struct P {
  m: u32, n: u32, k: u32, first: u32, // rows of this dispatch, columns, depth, index of the first row
  x_off: u32, w_off: u32, o_off: u32, r_off: u32, b_off: u32,
  x_batch: u32, w_batch: u32, o_batch: u32, r_batch: u32, // elements from one z to the next
  t: u32, h: u32, w: u32, c: u32, // convolution input
  ot: u32, oh: u32, ow: u32, // convolution output
  pt: i32, ph: i32, pw: i32, // padding before
  s_off: u32, nw_off: u32, nb_off: u32, groups: u32, rows_per: u32, // norm prologue: statistics, weight, bias
  alpha: f32,
  sc_off: u32, // factors of columns before the bias
  fa_off: u32, // factors of columns after the activation
}
#params
