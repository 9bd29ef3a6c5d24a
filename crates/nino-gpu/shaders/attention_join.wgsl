// Puts what attention over some keys gave together with what others gave before: a workgroup a
// query and head. A is gathered in f32 until the last keys, when the result is made. Logarithms are
// of base 2; one far below all others stands for no weights at all, whose values are none.
struct P {
  heads: u32, hd: u32, first: u32, // the first keys: nothing was gathered before
  a_off: u32, la_off: u32, b_off: u32, lb_off: u32, o_off: u32,
}
#params
#include io
#bind A 0
#bind LA 0
#if LAST
#bind O OT
#endif
#bind B OT
#bind LB 0
const NONE = -1.0e38;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let row = wg.x * p.heads + wg.y;
  let lb = LB_1(p.lb_off + row);
  var la = -3.0e38;
  if (p.first == 0u) { la = LA_1(p.la_off + row); }
  let top = max(max(la, lb), NONE);
  let wa = select(exp2(la - top), 0.0, la < NONE);
  let wb = select(exp2(lb - top), 0.0, lb < NONE);
  let inv = 1.0 / (wa + wb);
  // All have read the row's logarithm before one writes it.
  workgroupBarrier();
  if (t == 0u) { LA_word(p.la_off + row, vec2<f32>(select(top + log2(wa + wb), -3.0e38, wa + wb <= 0.0))); }
#if VEC
  for (var d = t * 4u; d < p.hd; d += 256u) {
    let i = row * p.hd + d;
    var v = vec4<f32>(0.0);
    if (wa > 0.0) { v += A_4(p.a_off + i) * wa; }
    if (wb > 0.0) { v += B_4(p.b_off + i) * wb; }
#if LAST
    O_set4(p.o_off + i, v * inv);
#else
    A_set4(p.a_off + i, v * inv);
#endif
  }
#else
  for (var d = t * 2u; d < p.hd; d += 128u) {
    let i = row * p.hd + d;
    var v = vec2<f32>(0.0);
    for (var e = 0u; e < 2u; e++) {
      if (d + e < p.hd) {
        if (wa > 0.0) { v[e] += A_1(p.a_off + i + e) * wa; }
        if (wb > 0.0) { v[e] += B_1(p.b_off + i + e) * wb; }
      }
    }
    v = v * inv;
#if LAST && OT != 0
    O_word(p.o_off + i, v);
#else
    for (var e = 0u; e < 2u; e++) {
      if (d + e < p.hd) {
#if LAST
        O_word(p.o_off + i + e, vec2<f32>(v[e]));
#else
        A_word(p.a_off + i + e, vec2<f32>(v[e]));
#endif
      }
    }
#endif
  }
#endif
}
