// Packing of 16-bit floats in u32 words. f16 goes through core WGSL, so no f16 feature is needed.
fn bf16_lo(w: u32) -> f32 { return bitcast<f32>(w << 16u); }
fn bf16_hi(w: u32) -> f32 { return bitcast<f32>(w & 0xffff0000u); }
fn bf16_bits(v: f32) -> u32 {
  let b = bitcast<u32>(v);
  // Round to nearest even; a NaN keeps its top bits and stays a NaN.
  let r = (b + 0x7fffu + ((b >> 16u) & 1u)) >> 16u;
  return select(r, (b >> 16u) | 0x40u, (b & 0x7fffffffu) > 0x7f800000u);
}
fn pack_bf16(v: vec2<f32>) -> u32 { return bf16_bits(v.x) | (bf16_bits(v.y) << 16u); }
fn unpack_bf16(w: u32) -> vec2<f32> { return vec2<f32>(bf16_lo(w), bf16_hi(w)); }
// Too large becomes infinity and NaN stays NaN on every driver seen, as on the CPU.
fn pack_f16(v: vec2<f32>) -> u32 { return pack2x16float(v); }
