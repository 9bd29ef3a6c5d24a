// Arithmetic with as little else as possible: the ceiling for TFLOP/s. COOP multiplies cooperative
// matrices held in registers (SH > 0: reads SH operands from shared memory before each round of 16
// products), otherwise f32 multiply-adds. Each step is 16 products or 64 multiply-adds per lane.
#if COOP
enable f16;
enable wgpu_cooperative_matrix;
#endif
struct P { steps: u32, seed: f32, mask: u32 }
#params
#include io
#bind O F32
#if COOP
#define LD TS/4*2+2
var<workgroup> Sh: array<vec4<f16>, ${TS*4*LD*2}>;
var<workgroup> St: array<f32, ${TS*TS*8}>;
#endif
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32
#if COOP
  , @builtin(subgroup_id) sg: u32
#endif
) {
#if COOP
  for (var i = t; i < ${TS*4*LD*2}u; i += 256u) { Sh[i] = vec4<f16>(f16(p.seed)); }
  workgroupBarrier();
#for i 0 4
  var a${i} = coopLoadT<coop_mat${TS}x${TS}<f16, A>>(&Sh[${i*TS*LD}u], ${LD}u);
  var b${i} = coopLoad<coop_mat${TS}x${TS}<f16, B>>(&Sh[${(i+4)*TS*LD}u], ${LD}u);
#for j 0 4
  var c${i}_${j} = coop_mat${TS}x${TS}<f32, C>();
#endfor
#endfor
  for (var s = 0u; s < p.steps; s++) {
    let o = (s & p.mask) * ${TS/4}u;
#for i 0 4
#if SH > i
    a${i} = coopLoadT<coop_mat${TS}x${TS}<f16, A>>(&Sh[o + ${i*TS*LD}u], ${LD}u);
#endif
#if SH > i+4
    b${i} = coopLoad<coop_mat${TS}x${TS}<f16, B>>(&Sh[o + ${(i+4)*TS*LD}u], ${LD}u);
#endif
#endfor
#for i 0 4
#for j 0 4
    c${i}_${j} = coopMultiplyAdd(a${i}, b${j}, c${i}_${j});
#endfor
#endfor
  }
#for i 0 4
#for j 0 4
#if i > 0 || j > 0
  c0_0 = c0_0 + c${i}_${j};
#endif
#endfor
#endfor
  let sb = (sg % 8u) * ${TS*TS}u;
  let ls = ${TS}u;
  coopStoreT(c0_0, &St[sb], ls);
  workgroupBarrier();
  if (t == 0u) { O_word(wg.x, vec2<f32>(St[0] + St[1])); }
#else
  var x = p.seed + f32(t) * 1e-6;
#for i 0 16
  var v${i} = vec4<f32>(x, x + ${i}.0, x - ${i}.0, x * 0.5);
#endfor
  for (var s = 0u; s < p.steps; s++) {
#for i 0 16
    v${i} = fma(v${i}, vec4<f32>(0.999), vec4<f32>(x));
#endfor
  }
#for i 1 16
  v0 = v0 + v${i};
#endfor
  if (v0.x + v0.y + v0.z + v0.w != 12345.0) { O_word(wg.x, v0.xy); }
#endif
}
