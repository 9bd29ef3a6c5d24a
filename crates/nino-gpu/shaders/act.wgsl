// Activation functions, chosen by number (src/ops/act.rs); the number is a constant, so it folds
// away.
fn erf_approx(x: f32) -> f32 {
  // Abramowitz and Stegun 7.1.26, |error| < 1.5e-7.
  let t = 1.0 / (1.0 + 0.3275911 * abs(x));
  let y = 1.0 - (((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * exp(-x * x);
  return select(-y, y, x >= 0.0);
}
fn tanh_safe(x: f32) -> f32 {
  // exp overflows to inf for large x; 1 - 2/inf is the right limit.
  return 1.0 - 2.0 / (1.0 + exp(2.0 * x));
}
fn sigmoid(x: f32) -> f32 { return 1.0 / (1.0 + exp(-x)); }
fn act_silu(x: f32) -> f32 { return x * sigmoid(x); }
fn act_gelu(x: f32) -> f32 { return 0.5 * x * (1.0 + erf_approx(x * 0.70710678)); }
fn act_gelu_tanh(x: f32) -> f32 { return 0.5 * x * (1.0 + tanh_safe(0.7978845608 * (x + 0.044715 * x * x * x))); }
fn act_quick_gelu(x: f32) -> f32 { return x * sigmoid(1.702 * x); }
fn activate(code: u32, x: f32, a: f32, b: f32) -> f32 {
  switch code {
    case 1u: { return act_silu(x); }
    case 2u: { return act_gelu(x); }
    case 3u: { return act_gelu_tanh(x); }
    case 4u: { return act_quick_gelu(x); }
    case 5u: { return select(x, 0.0, x < 0.0); } // not max: NaN stays NaN, which tells of overflows
    case 6u: { return sigmoid(x); }
    case 7u: { return tanh_safe(x); }
    case 8u: { return clamp(x, a, b); }
    case 9u: { return x * a + b; }
    case 10u: { return select(x, x * a, x < 0.0); }
    default: { return x; }
  }
}
fn epi_act(x: f32) -> f32 { return activate(${ACT}u, x, bitcast<f32>(${ACT_A}u), bitcast<f32>(${ACT_B}u)); }
fn post_act(x: f32) -> f32 { return activate(${POST}u, x, bitcast<f32>(${POST_A}u), bitcast<f32>(${POST_B}u)); }
fn pro_act(x: f32) -> f32 { return activate(${PRO_ACT}u, x, bitcast<f32>(${PRO_ACT_A}u), bitcast<f32>(${PRO_ACT_B}u)); }
