// Typed access to binding NAME by element index; DT is its storage type (numbers: src/shader.rs).
#if DT == 0
fn NAME_1(i: u32) -> f32 { return bitcast<f32>(NAME[i >> 2u][i & 3u]); }
fn NAME_4(i: u32) -> vec4<f32> { return bitcast<vec4<f32>>(NAME[i >> 2u]); }
fn NAME_word(i: u32, v: vec2<f32>) { NAME[i >> 2u][i & 3u] = bitcast<u32>(v.x); }
fn NAME_set4(i: u32, v: vec4<f32>) { NAME[i >> 2u] = bitcast<vec4<u32>>(v); }
fn NAME_set8(i: u32, a: vec4<f32>, b: vec4<f32>) { NAME_set4(i, a); NAME_set4(i + 4u, b); }
#elif DT == 1 || DT == 2
#if DT == 1
fn NAME_unpack(w: u32) -> vec2<f32> { return unpack2x16float(w); }
fn NAME_pack(v: vec2<f32>) -> u32 { return pack_f16(v); }
#else
fn NAME_unpack(w: u32) -> vec2<f32> { return unpack_bf16(w); }
fn NAME_pack(v: vec2<f32>) -> u32 { return pack_bf16(v); }
#endif
fn NAME_1(i: u32) -> f32 {
  let v = NAME_unpack(NAME[i >> 3u][(i >> 1u) & 3u]);
  return select(v.x, v.y, (i & 1u) == 1u);
}
fn NAME_4(i: u32) -> vec4<f32> {
  let j = (i >> 1u) & 2u;
  return vec4<f32>(NAME_unpack(NAME[i >> 3u][j]), NAME_unpack(NAME[i >> 3u][j + 1u]));
}
fn NAME_word(i: u32, v: vec2<f32>) { NAME[i >> 3u][(i >> 1u) & 3u] = NAME_pack(v); }
fn NAME_set4(i: u32, v: vec4<f32>) {
  let j = (i >> 1u) & 2u;
  NAME[i >> 3u][j] = NAME_pack(v.xy);
  NAME[i >> 3u][j + 1u] = NAME_pack(v.zw);
}
fn NAME_set8(i: u32, a: vec4<f32>, b: vec4<f32>) {
  NAME[i >> 3u] = vec4<u32>(NAME_pack(a.xy), NAME_pack(a.zw), NAME_pack(b.xy), NAME_pack(b.zw));
}
#endif
