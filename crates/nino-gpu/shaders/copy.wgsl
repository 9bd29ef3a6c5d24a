// Reads and writes 16 bytes a lane: the ceiling for GB/s.
struct P { n: u32, stride: u32 }
#params
#include io
#bind O F32
#bind X F32
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  for (var i = g.x; i < p.n; i += p.stride) { O[i] = X[i]; }
}
