// Main of kernels that give each output value on its own: the file that includes this defines
// value(i), and value4(i) when VEC, for element i of the whole output, and a struct P that starts
// with lo, hi (elements of this dispatch) and o_off. Without VEC a lane makes one 32-bit word, so
// that 16-bit values of odd rows never race; values outside lo..hi keep what is there.
#if OT == 0 || OT == 5
#define EPW 1
#else
#define EPW 2
#endif
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let g = (wg.y * n.x + wg.x) * 256u + t;
#if VEC
  let i = p.lo + g * 4u;
  if (i < p.hi) { O_set4(p.o_off + i, value4(i)); }
#elif EPW == 1
  let i = p.lo + g;
  if (i < p.hi) { O_word(p.o_off + i, vec2<f32>(value(i))); }
#else
  // Words are whole in the buffer, not in the tensor.
  let w = ((p.o_off + p.lo) & 0xfffffffeu) + g * 2u;
  let i = w - p.o_off;
  let j = i + 1u;
  let in0 = i - p.lo < p.hi - p.lo;
  let in1 = j - p.lo < p.hi - p.lo;
  if (!in0 && !in1) { return; }
  var v = vec2<f32>(O_1(w), O_1(w + 1u));
  if (in0) { v.x = value(i); }
  if (in1) { v.y = value(j); }
  O_word(w, v);
#endif
}
