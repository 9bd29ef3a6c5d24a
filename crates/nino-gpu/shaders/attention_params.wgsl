// Parameters of the attention kernels; `Attention` in src/ops/attention.rs writes them in this
// order.
struct P {
  rows: u32, first: u32, m: u32, heads: u32, hd: u32, // query rows of this dispatch, the first one, keys
  q_off: u32, k_off: u32, v_off: u32, o_off: u32, // of this batch element, in elements
  mask_off: u32, mask_head: u32, mask_row: u32,
  q_batch: u32, kv_batch: u32, mask_batch: u32, // elements from one batch element to the next (z)
  log_off: u32,
  scale: f32,
  f_off: u32, // of queries as f16 (half_all.wgsl) what takes them back; then of keys, of values
}
#params
#include io
#bind O OT
#if LOG
#bind L 0
// What a query's weights sum up to, for the step that puts it together with those of other keys.
fn put_log(row: u32, head: u32, top: f32, sum: f32) {
  L_word(p.log_off + row * p.heads + head, vec2<f32>(select(top + log2(sum), -3.0e38, sum <= 0.0)));
}
#endif
#if WIDE
#bind4 Q
#bind4 K
#bind4 V
#elif COOP
#bind8 Q
#bind8 K
#bind8 V
#else
#bind Q XT
#bind K XT
#bind V XT
#endif
#if MASK
#bind M MT
#endif
#if HALVES
#bind F 0
var<private> score_scale: f32;
fn begin_scores() {
  score_scale = p.scale * min(F_1(p.f_off) * F_1(p.f_off + ${HALVES}u), 3.4028234e38);
}
fn value_factor() -> f32 { return F_1(p.f_off + ${2*HALVES}u); }
#endif
// Scores are kept in units of log2, so that exp2 serves; p.scale says so too.
fn score(s: f32, row: u32, col: u32, head: u32, batch: u32) -> f32 {
#if HALVES
  var v = s * score_scale;
#else
  var v = s * p.scale;
#endif
#if MASK
  if (col < p.m) {
    v = max(v + M_1(p.mask_off + batch * p.mask_batch + head * p.mask_head + row * p.mask_row + col) * 1.44269504, -3.0e38);
  }
#endif
  return select(-3.0e38, v, col < p.m);
}
