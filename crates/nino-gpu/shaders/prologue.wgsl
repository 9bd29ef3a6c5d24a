// Normalization and activation applied to A as it is read: S holds (mean, 1/std) per batch and
// group. P4: four neighbouring channels are in one group and weights can be read four at a time.
#if PRO
fn pro1(v: f32, b: u32, c: u32) -> f32 {
  let g = c / (p.c / p.groups);
  let s = p.s_off + (b * p.groups + g) * 2u;
  var y = (v - S_1(s)) * S_1(s + 1u);
#if PRO_W
  y = y * NW_1(p.nw_off + c);
#endif
#if PRO_B
  y = y + NB_1(p.nb_off + c);
#endif
  return pro_act(y);
}
fn pro4(v: vec4<f32>, b: u32, c: u32) -> vec4<f32> {
#if P4
  let s = p.s_off + (b * p.groups + c / (p.c / p.groups)) * 2u;
  var y = (v - S_1(s)) * S_1(s + 1u);
#if PRO_W
  y = y * NW_4(p.nw_off + c);
#endif
#if PRO_B
  y = y + NB_4(p.nb_off + c);
#endif
  return vec4<f32>(pro_act(y.x), pro_act(y.y), pro_act(y.z), pro_act(y.w));
#else
  return vec4<f32>(pro1(v.x, b, c), pro1(v.y, b, c + 1u), pro1(v.z, b, c + 2u), pro1(v.w, b, c + 3u));
#endif
}
#if COOP
fn pro8(v: mat2x4<f16>, b: u32, c: u32) -> mat2x4<f16> {
  return half8(pro4(vec4<f32>(v[0]), b, c), pro4(vec4<f32>(v[1]), b, c + 4u));
}
#endif
#endif
