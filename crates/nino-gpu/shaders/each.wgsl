// Main of kernels that give each output value on its own: the file that includes this defines
// value(i), and value4(i) when VEC, for element i of the whole output, and a struct P that starts
// with lo and len (first element of this dispatch, and how many), row and d (the row that lo
// starts, and the length of rows) and o_off. Tensors may have more elements than 32 bits count: i
// wraps, and only serves to be added to an offset; where it is say row_of and col_of. Without VEC a
// lane makes one 32-bit word, so that 16-bit values of odd rows never race; values outside the
// dispatch keep what is there.
#if OT == 0 || OT == 5
#define EPW 1
#else
#define EPW 2
#endif
fn row_of(i: u32) -> u32 { return p.row + (i - p.lo) / p.d; }
fn col_of(i: u32) -> u32 {
  let t = i - p.lo;
  return t - t / p.d * p.d; // the division of row_of, once more or shared
}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let g = (wg.y * n.x + wg.x) * 256u + t;
#if VEC
  let i = p.lo + g * 4u;
  if (g * 4u < p.len) { O_set4(p.o_off + i, value4(i)); }
#elif EPW == 1
  let i = p.lo + g;
  if (g < p.len) { O_word(p.o_off + i, vec2<f32>(value(i))); }
#else
  // Words are whole in the buffer, not in the tensor.
  let w = ((p.o_off + p.lo) & 0xfffffffeu) + g * 2u;
  let i = w - p.o_off;
  let j = i + 1u;
  let in0 = i - p.lo < p.len;
  let in1 = j - p.lo < p.len;
  if (!in0 && !in1) { return; }
  var v = vec2<f32>(O_1(w), O_1(w + 1u));
  if (in0) { v.x = value(i); }
  if (in1) { v.y = value(j); }
  O_word(w, v);
#endif
}
