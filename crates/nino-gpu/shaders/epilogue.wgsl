// What happens to an accumulator before it is stored: factors of rows as f16, scale, bias,
// activation, factor, a residual or, with PRODUCT, another factor of the result's shape, a second
// activation.
fn biased4(v: vec4<f32>, m: u32, n: u32) -> vec4<f32> {
  var y = v;
#if HALVES == 1
  y = y * S_1(p.s_off + m);
#elif HALVES == 2
  // No sum of zero may meet infinity.
  y = y * min(S_1(p.s_off + m) * S_4(p.nw_off + n), vec4<f32>(3.4028234e38));
#endif
#if ALPHA
  y = y * p.alpha;
#endif
#if SCALE
#if VO
  y = y * SC_4(p.sc_off + n);
#else
  for (var i = 0u; i < 4u; i++) { if (n + i < p.n) { y[i] = y[i] * SC_1(p.sc_off + n + i); } }
#endif
#endif
#if BIAS
#if VO
  y = y + BI_4(p.b_off + n);
#else
  for (var i = 0u; i < 4u; i++) { if (n + i < p.n) { y[i] = y[i] + BI_1(p.b_off + n + i); } }
#endif
#endif
  y = vec4<f32>(epi_act(y.x), epi_act(y.y), epi_act(y.z), epi_act(y.w));
#if FACTOR
#if VO
  y = y * FA_4(p.fa_off + n);
#else
  for (var i = 0u; i < 4u; i++) { if (n + i < p.n) { y[i] = y[i] * FA_1(p.fa_off + n + i); } }
#endif
#endif
  return y;
}
#if RES
fn joined4(y: vec4<f32>, r: vec4<f32>) -> vec4<f32> {
#if PRODUCT
  return y * r;
#else
  return y + r;
#endif
}
#endif
fn posted4(y: vec4<f32>) -> vec4<f32> {
#if POST
  return vec4<f32>(post_act(y.x), post_act(y.y), post_act(y.z), post_act(y.w));
#else
  return y;
#endif
}
fn finish4(v: vec4<f32>, m: u32, n: u32, z: u32) -> vec4<f32> {
  var y = biased4(v, m, n);
#if RES
#if VO
  y = joined4(y, R_4(p.r_off + z * p.r_batch + m * p.n + n));
#else
  var r = y;
  for (var i = 0u; i < 4u; i++) { if (n + i < p.n) { r[i] = R_1(p.r_off + z * p.r_batch + m * p.n + n + i); } }
  y = joined4(y, r);
#endif
#endif
  return posted4(y);
}
#if COOP
fn store8(m: u32, n: u32, z: u32, a: vec4<f32>, b: vec4<f32>) {
  let o = p.o_off + z * p.o_batch + m * p.n + n;
  O_set8(o, finish4(a, m, n, z), finish4(b, m, n + 4u, z));
}
#if RES && RT > 0
// The same in two parts: eight values beside the result, read early, and what is done with them.
fn res8(m: u32, n: u32, z: u32) -> vec4<u32> { return R[(p.r_off + z * p.r_batch + m * p.n + n) >> 3u]; }
fn store8_with(r: vec4<u32>, m: u32, n: u32, z: u32, a: vec4<f32>, b: vec4<f32>) {
  let ra = vec4<f32>(R_unpack(r.x), R_unpack(r.y));
  let rb = vec4<f32>(R_unpack(r.z), R_unpack(r.w));
  let o = p.o_off + z * p.o_batch + m * p.n + n;
  O_set8(o, posted4(joined4(biased4(a, m, n), ra)), posted4(joined4(biased4(b, m, n + 4u), rb)));
}
#endif
#endif
// Four neighbours of a row; VO says that rows are whole groups of four, else they go word by word
// (16-bit rows then have an even length).
fn store4(m: u32, n: u32, z: u32, v: vec4<f32>) {
  if (m < p.m && n < p.n) { put4(m, n, z, v); }
}
fn put4(m: u32, n: u32, z: u32, v: vec4<f32>) {
  let o = p.o_off + z * p.o_batch + m * p.n + n;
  let y = finish4(v, m, n, z);
#if VO
  O_set4(o, y);
#elif OT == 0
  for (var i = 0u; i < 4u; i++) { if (n + i < p.n) { O_word(o + i, vec2<f32>(y[i])); } }
#else
  O_word(o, y.xy);
  if (n + 2u < p.n) { O_word(o + 2u, y.zw); }
#endif
}
