// Two neighbours of binding NAME, declared as single words: as they are stored (NAME_two_at, which
// is read early) and as numbers (NAME_two_of, decoded late). The index is even.
#if DT == 0
alias NAME_two = vec2<u32>;
fn NAME_two_at(i: u32) -> NAME_two { return vec2<u32>(NAME[i], NAME[i + 1u]); }
fn NAME_two_of(w: NAME_two) -> vec2<f32> { return bitcast<vec2<f32>>(w); }
#else
alias NAME_two = u32;
fn NAME_two_at(i: u32) -> NAME_two { return NAME[i >> 1u]; }
#if DT == 1
fn NAME_two_of(w: NAME_two) -> vec2<f32> { return unpack2x16float(w); }
#else
fn NAME_two_of(w: NAME_two) -> vec2<f32> { return unpack_bf16(w); }
#endif
#endif
