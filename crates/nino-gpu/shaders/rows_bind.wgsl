// Parameters and bindings of row kernels, and what they do to a value once its row is known.
struct P {
  rows: u32, first: u32, step: u32, o_off: u32, x_off: u32, d: u32, eps: f32,
  w_off: u32, b_off: u32, sc_off: u32, sh_off: u32, g_off: u32, r_off: u32,
  rows_per: u32, // modulation and gate: one row per rows_per
}
#params
#include io
#if MODE == 1
#include act
#endif
#bind O OT
#bind X XT
#if WEIGHT
#bind W WT
#endif
#if BIAS
#bind BI BT
#endif
#if SCALE
#bind SC SCT
#endif
#if SHIFT
#bind SH SHT
#endif
#if GATE
#bind G GT
#endif
#if RES
#bind R RT
#endif
#if MODE < 2
// Value i of row r.
fn result(x: f32, i: u32, mean: f32, rstd: f32, r: u32) -> f32 {
#if MODE == 0
  return exp(x - mean) * rstd;
#else
  let b = r / p.rows_per;
  var y = (x - mean) * rstd;
#if WEIGHT
  y = y * W_1(p.w_off + i);
#endif
#if BIAS
  y = y + BI_1(p.b_off + i);
#endif
#if SCALE
  y = y * (1.0 + SC_1(p.sc_off + b * p.d + i));
#endif
#if SHIFT
  y = y + SH_1(p.sh_off + b * p.d + i);
#endif
  y = epi_act(y);
#if GATE
  y = y * G_1(p.g_off + b * p.d + i);
#endif
#if RES
  y = y + R_1(p.r_off + r * p.d + i);
#endif
  return y;
#endif
}
#if VEC
#if MODE == 1
// What columns have, whatever the row.
struct Own { weight: vec4<f32>, bias: vec4<f32> }
fn own4(i: u32) -> Own {
  var own = Own();
#if WEIGHT
  own.weight = W_4(p.w_off + i);
#endif
#if BIAS
  own.bias = BI_4(p.b_off + i);
#endif
  return own;
}
fn finish4(normed: vec4<f32>, own: Own, i: u32, r: u32) -> vec4<f32> {
  let b = r / p.rows_per;
  var y = normed;
#if WEIGHT
  y = y * own.weight;
#endif
#if BIAS
  y = y + own.bias;
#endif
#if SCALE
  y = y * (1.0 + SC_4(p.sc_off + b * p.d + i));
#endif
#if SHIFT
  y = y + SH_4(p.sh_off + b * p.d + i);
#endif
  y = vec4<f32>(epi_act(y.x), epi_act(y.y), epi_act(y.z), epi_act(y.w));
#if GATE
  y = y * G_4(p.g_off + b * p.d + i);
#endif
#if RES
  y = y + R_4(p.r_off + r * p.d + i);
#endif
  return y;
}
#endif
fn result4(x: vec4<f32>, i: u32, mean: f32, rstd: f32, r: u32) -> vec4<f32> {
#if MODE == 0
  return exp(x - mean) * rstd;
#else
  return finish4((x - mean) * rstd, own4(i), i, r);
#endif
}
#endif
#endif
