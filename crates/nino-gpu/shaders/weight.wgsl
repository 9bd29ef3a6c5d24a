// Decodes four neighbours of a weight row, w4(element index), for every storage type (WT). Block
// types keep the byte layout of `nino-dtype`; blocks of 18, 22, 34, 110 and 210 bytes start at any
// two-byte boundary and those of 33 at any byte, hence the unaligned reads.
fn wb_u32(byte: u32) -> u32 {
  let i = byte >> 2u;
  let s = (byte & 3u) * 8u;
  let lo = W[i >> 2u][i & 3u];
  if (s == 0u) { return lo; }
  let j = i + 1u;
  return (lo >> s) | (W[j >> 2u][j & 3u] << (32u - s));
}
fn wb_u8(byte: u32) -> u32 { return (W[byte >> 4u][(byte >> 2u) & 3u] >> ((byte & 3u) * 8u)) & 255u; }
fn wb_f16(byte: u32) -> f32 { return unpack2x16float((W[byte >> 4u][(byte >> 2u) & 3u] >> ((byte & 2u) * 8u)) & 0xffffu).x; }
fn bytes4(w: u32) -> vec4<u32> { return vec4<u32>(w & 255u, (w >> 8u) & 255u, (w >> 16u) & 255u, w >> 24u); }
#if WT <= 2
fn w4(e: u32) -> vec4<f32> { return W_4(e); }
fn w1(e: u32) -> f32 { return W_1(e); }
#else
fn w1(e: u32) -> f32 { return w4(e & 0xfffffffcu)[e & 3u]; }
#endif
#if WT == 3 || WT == 27 || WT == 28
fn e4m3(b: u32) -> f32 {
  let e = (b >> 3u) & 15u;
  let m = b & 7u;
  var v = bitcast<f32>(((e + 120u) << 23u) | (m << 20u));
  if (e == 0u) { v = f32(m) * 0.001953125; }
  if ((b & 127u) == 127u) { v = bitcast<f32>(0x7fc00000u | b); }
  return select(v, -v, b >= 128u);
}
#endif
#if WT == 27 || WT == 29
// The codes of four neighbours in a block of 64 after four bytes, two in a byte, the upper first.
fn codes4(base: u32, o: u32) -> vec4<u32> {
  let i = base + 4u + (o >> 1u);
  let w = W[i >> 4u][(i >> 2u) & 3u] >> ((i & 2u) * 8u);
  return vec4<u32>(w >> 4u, w, w >> 12u, w >> 8u) & vec4<u32>(15u);
}
#endif
#if WT <= 2
#elif WT == 3
fn w4(e: u32) -> vec4<f32> {
  let b = bytes4(wb_u32(e));
  return vec4<f32>(e4m3(b.x), e4m3(b.y), e4m3(b.z), e4m3(b.w));
}
#elif WT == 4
fn e5m2(b: u32) -> f32 {
  let e = (b >> 2u) & 31u;
  let m = b & 3u;
  var v = bitcast<f32>(((e + select(112u, 224u, e == 31u)) << 23u) | (m << 21u));
  if (e == 0u) { v = f32(m) * 0.0000152587890625; }
  return select(v, -v, b >= 128u);
}
fn w4(e: u32) -> vec4<f32> {
  let b = bytes4(wb_u32(e));
  return vec4<f32>(e5m2(b.x), e5m2(b.y), e5m2(b.z), e5m2(b.w));
}
#elif WT == 10
// Q8_0: f16 scale, 32 signed bytes.
fn w4(e: u32) -> vec4<f32> {
  let base = (e >> 5u) * 34u;
  let w = wb_u32(base + 2u + (e & 31u));
  let q = vec4<f32>(f32(i32(w << 24u) >> 24u), f32(i32(w << 16u) >> 24u), f32(i32(w << 8u) >> 24u), f32(i32(w) >> 24u));
  return wb_f16(base) * q;
}
#elif WT == 11 || WT == 12 || WT == 13 || WT == 14
// Q4_0, Q4_1, Q5_0, Q5_1: scale [, minimum] [, high bits], 16 bytes of nibbles: low half of the
// block in the low nibbles.
#define MIN WT==12||WT==14
#define HI WT==13||WT==14
#define QS 2+2*MIN+4*HI
#define BB QS+16
fn w4(e: u32) -> vec4<f32> {
  let base = (e >> 5u) * ${BB}u;
  let o = e & 31u;
  var q = (bytes4(wb_u32(base + ${QS}u + (o & 15u))) >> vec4<u32>((o >> 4u) * 4u)) & vec4<u32>(15u);
#if HI
  let h = wb_u32(base + ${QS-4}u) >> o;
  q = q | (vec4<u32>(h & 1u, (h >> 1u) & 1u, (h >> 2u) & 1u, (h >> 3u) & 1u) << vec4<u32>(4u));
#endif
  let d = wb_f16(base);
#if MIN
  return d * vec4<f32>(q) + wb_f16(base + 2u);
#else
  return d * (vec4<f32>(q) - ${8+8*HI}.0);
#endif
}
#elif WT == 20
// Q2_K: 16 scale/minimum nibble pairs, 64 bytes of 2-bit values, f16 scale and minimum scale.
fn w4(e: u32) -> vec4<f32> {
  let base = (e >> 8u) * 84u;
  let half = (e >> 7u) & 1u;
  let j = (e >> 5u) & 3u;
  let l = e & 31u;
  let q = (bytes4(wb_u32(base + 16u + half * 32u + l)) >> vec4<u32>(2u * j)) & vec4<u32>(3u);
  let s = wb_u8(base + half * 8u + j * 2u + (l >> 4u));
  return wb_f16(base + 80u) * f32(s & 15u) * vec4<f32>(q) - wb_f16(base + 82u) * f32(s >> 4u);
}
#elif WT == 21
// Q3_K: 32 bytes of high bits, 64 bytes of low 2 bits, 16 packed 6-bit scales, f16 scale.
fn w4(e: u32) -> vec4<f32> {
  let base = (e >> 8u) * 110u;
  let half = (e >> 7u) & 1u;
  let j = (e >> 5u) & 3u;
  let l = e & 31u;
  let q = (bytes4(wb_u32(base + 32u + half * 32u + l)) >> vec4<u32>(2u * j)) & vec4<u32>(3u);
  let h = (bytes4(wb_u32(base + l)) >> vec4<u32>(half * 4u + j)) & vec4<u32>(1u);
  let i = half * 8u + j * 2u + (l >> 4u);
  let lo = (wb_u8(base + 96u + (i & 7u)) >> ((i >> 3u) * 4u)) & 15u;
  let hi = (wb_u8(base + 104u + (i & 3u)) >> ((i >> 2u) * 2u)) & 3u;
  let s = f32(i32(lo | (hi << 4u)) - 32);
  return wb_f16(base + 108u) * s * (vec4<f32>(q) + 4.0 * vec4<f32>(h) - 4.0);
}
#elif WT == 22 || WT == 23
// Q4_K, Q5_K: f16 scale and minimum scale, 8 packed 6-bit scale/minimum pairs, [32 bytes of fifth
// bits,] 128 bytes of nibbles.
#define HI WT==23
fn w4(e: u32) -> vec4<f32> {
  let base = (e >> 8u) * ${144+32*HI}u;
  let i = (e >> 5u) & 7u;
  let l = e & 31u;
  var q = (bytes4(wb_u32(base + ${16+32*HI}u + (i >> 1u) * 32u + l)) >> vec4<u32>((i & 1u) * 4u)) & vec4<u32>(15u);
#if HI
  q = q | (((bytes4(wb_u32(base + 16u + l)) >> vec4<u32>(i)) & vec4<u32>(1u)) << vec4<u32>(4u));
#endif
  let a = wb_u8(base + 4u + (i & 3u));
  let b = wb_u8(base + 8u + (i & 3u));
  let c = wb_u8(base + 12u + (i & 3u));
  let s = select(a & 63u, (c & 15u) | ((a >> 6u) << 4u), i >= 4u);
  let m = select(b & 63u, (c >> 4u) | ((b >> 6u) << 4u), i >= 4u);
  return wb_f16(base) * f32(s) * vec4<f32>(q) - wb_f16(base + 2u) * f32(m);
}
#elif WT == 24
// Q6_K: 128 bytes of low nibbles, 64 of high 2 bits, 16 signed scales, f16 scale.
fn w4(e: u32) -> vec4<f32> {
  let base = (e >> 8u) * 210u;
  let half = (e >> 7u) & 1u;
  let j = (e >> 5u) & 3u;
  let l = e & 31u;
  let lo = (bytes4(wb_u32(base + half * 64u + (j & 1u) * 32u + l)) >> vec4<u32>((j >> 1u) * 4u)) & vec4<u32>(15u);
  let hi = (bytes4(wb_u32(base + 128u + half * 32u + l)) >> vec4<u32>(2u * j)) & vec4<u32>(3u);
  let s = f32(i32(wb_u8(base + 192u + half * 8u + j * 2u + (l >> 4u)) << 24u) >> 24u);
  return wb_f16(base + 208u) * s * (vec4<f32>(lo | (hi << vec4<u32>(4u))) - 32.0);
}
#elif WT == 27
// NVFP4: four e4m3 scales, each of 16 values, 32 bytes of 4-bit floats.
fn e2m1(c: vec4<u32>) -> vec4<f32> {
  let m = c & vec4<u32>(7u);
  let v = bitcast<vec4<f32>>((m << vec4<u32>(22u)) + vec4<u32>(126u << 23u));
  let small = select(v, vec4<f32>(m) * 0.5, m < vec4<u32>(2u));
  return select(small, -small, c >= vec4<u32>(8u));
}
fn w4(e: u32) -> vec4<f32> {
  let base = (e >> 6u) * 36u;
  let o = e & 63u;
  return e4m3(wb_u8(base + (o >> 4u))) * e2m1(codes4(base, o));
}
#elif WT == 28
// MXFP8: a power of two, 32 8-bit floats.
fn w4(e: u32) -> vec4<f32> {
  let base = (e >> 5u) * 33u;
  let scale = bitcast<f32>(wb_u8(base) << 23u);
  let b = bytes4(wb_u32(base + 1u + (e & 31u)));
  return scale * vec4<f32>(e4m3(b.x), e4m3(b.y), e4m3(b.z), e4m3(b.w));
}
#elif WT == 29
// NF4: f32 scale, 32 bytes of nibbles that index a table.
const NF4 = array<f32, 16>(-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0.0, 0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0);
fn w4(e: u32) -> vec4<f32> {
  let base = (e >> 6u) * 36u;
  let c = codes4(base, e & 63u);
  let d = bitcast<f32>(W[base >> 4u][(base >> 2u) & 3u]);
  var table = NF4;
  return d * vec4<f32>(table[c.x], table[c.y], table[c.z], table[c.w]);
}
#else
// IQ4_NL (WT 25): f16 scale, 16 bytes of nibbles that index a table. IQ4_XS (26): eight of those
// with 6-bit scales under one f16 scale.
const IQ4 = array<f32, 16>(-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0);
fn w4(e: u32) -> vec4<f32> {
  let o = e & 31u;
#if WT == 25
  let base = (e >> 5u) * 18u;
  let d = wb_f16(base);
  let at = base + 2u + (o & 15u);
#else
  let base = (e >> 8u) * 136u;
  let i = (e >> 5u) & 7u;
  let lo = (wb_u8(base + 4u + (i >> 1u)) >> ((i & 1u) * 4u)) & 15u;
  let hi = ((wb_u32(base) >> 16u) >> (2u * i)) & 3u;
  let d = wb_f16(base) * f32(i32(lo | (hi << 4u)) - 32);
  let at = base + 8u + i * 16u + (o & 15u);
#endif
  let q = (bytes4(wb_u32(at)) >> vec4<u32>((o >> 4u) * 4u)) & vec4<u32>(15u);
  var table = IQ4;
  return d * vec4<f32>(table[q.x], table[q.y], table[q.z], table[q.w]);
}
#endif
