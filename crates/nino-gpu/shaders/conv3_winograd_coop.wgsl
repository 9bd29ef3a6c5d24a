// conv3_winograd.wgsl on cooperative matrices: f16 in, transformed in f16, f32 accumulate. A
// workgroup makes 2 TS squares of 2 x 2 pixels for 2 TS output channels, TS input channels at a
// time; a subgroup multiplies XW of the 16 pairs of matrices. Weights are
// [cin / TS, tap, cout, TS].
// The input's transform is scaled by a quarter, so that no sum of four values leaves f16's range.
enable f16;
enable wgpu_cooperative_matrix;
#define P 2*TS
#define PY P/PX
#define NT 16/XW*SG
#define CH TS/4
#define LD CH+2
#include gemm_bind
// Matrices of squares, of filters, and of sums: of each 16.
var<workgroup> Vs: array<vec4<f16>, ${16*P*LD}>;
var<workgroup> Us: array<vec4<f16>, ${16*P*LD}>;
var<workgroup> St: array<vec4<f32>, ${16*TS*CH}>;

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32,
        @builtin(subgroup_id) sg: u32) {
  let n0 = wg.x * ${P}u;
  let of_input = t < ${NT/2}u;
  let who = t % ${NT/2}u / ${CH}u; // square or output channel
#include winograd_square
  let quad = t % ${CH}u * 4u;
  let at_work = who < ${P}u;
  let put = who * ${LD}u + t % ${CH}u;
#for i 0 4
  let my${i} = vec4<f16>(select(0.0h, 0.5h, top + ${i} >= 0 && top + ${i} < i32(p.h)));
  let mx${i} = vec4<f16>(select(0.0h, 0.5h, left + ${i} >= 0 && left + ${i} < i32(p.w)));
#endfor
#for i 0 4
#for j 0 4
  let o${i*4+j} = (yo${i} + xo${j}) >> 2u;
#endfor
#endfor
  // The last channels again for those past the end: what they give is not stored.
  let filter_row = p.w_off + min(n0 + who, p.n - 1u) * ${TS}u;
  // All that follows counts fours of values.
  let tap_size = p.n * ${CH}u;
  let step = select(${9*KT}u * tap_size, ${CH}u, of_input);
  var read_at = (select(filter_row, p.x_off + source * frame_size, of_input) + quad) >> 2u;
#for x 0 XW
#for i 0 2
#for j 0 2
  var c${x}_${i}_${j} = coop_mat${TS}x${TS}<f32, C>();
#endfor
#endfor
#endfor
  let blocks = p.c / ${TS}u;
  let stages = blocks * ${KT}u;
#if KT > 1
  // From behind a frame's channels to the next frame's.
  let to_next = select(9u * tap_size, frame_size >> 2u, of_input) - blocks * step;
#endif
  // The next stage is on its way from memory while this one is multiplied, and stored in the same
  // round: Mesa waits at once for what a loop carries, to copy it from register to register.
#for e 0 2
#if e == 0
  {
#else
  for (var s = 1u; s < stages; s++) {
    read_at += step;
#if KT > 1
    if (s % blocks == 0u) { read_at += to_next; }
#endif
    workgroupBarrier();
#endif
#for i 0 16
    var r${i}: vec4<f16>;
#endfor
    if (at_work) {
      if (of_input) {
#for i 0 4
#for j 0 4
        r${i*4+j} = X[read_at + o${i*4+j}];
#endfor
#endfor
      } else {
#for i 0 9
        r${i} = W[read_at + ${i}u * tap_size];
#endfor
      }
    }
#if e == 1
#include winograd_multiply
    workgroupBarrier();
#endif
    if (at_work) {
      if (of_input) {
#for j 0 4
        let q2_${j} = r${8+j} * my2;
        let q3_${j} = r${12+j} * my3;
        let e0_${j} = fma(r${j}, my0, -q2_${j});
        let e1_${j} = fma(r${4+j}, my1, q2_${j});
        let e2_${j} = fma(-r${4+j}, my1, q2_${j});
        let e3_${j} = fma(r${4+j}, my1, -q3_${j});
#endfor
#for i 0 4
        let f2_${i} = e${i}_2 * mx2;
        Vs[put + ${(i*4)*P*LD}u] = fma(e${i}_0, mx0, -f2_${i});
        Vs[put + ${(i*4+1)*P*LD}u] = fma(e${i}_1, mx1, f2_${i});
        Vs[put + ${(i*4+2)*P*LD}u] = fma(-e${i}_1, mx1, f2_${i});
        Vs[put + ${(i*4+3)*P*LD}u] = fma(e${i}_1, mx1, -(e${i}_3 * mx3));
#endfor
      } else {
#for j 0 3
        let h_${j} = 0.5h * r${3+j};
        let l_${j} = 0.5h * (r${j} + r${6+j});
        let g0_${j} = r${j};
        let g1_${j} = l_${j} + h_${j};
        let g2_${j} = l_${j} - h_${j};
        let g3_${j} = r${6+j};
#endfor
#for i 0 4
        let k_${i} = 0.5h * g${i}_1;
        let m_${i} = 0.5h * (g${i}_0 + g${i}_2);
        Us[put + ${(i*4)*P*LD}u] = g${i}_0;
        Us[put + ${(i*4+1)*P*LD}u] = m_${i} + k_${i};
        Us[put + ${(i*4+2)*P*LD}u] = m_${i} - k_${i};
        Us[put + ${(i*4+3)*P*LD}u] = g${i}_2;
#endfor
      }
    }
  }
#endfor
  workgroupBarrier();
#include winograd_multiply
  // TS squares and TS channels at a time; a lane makes four channels of a pixel.
  let ls = ${CH}u;
#for x 0 XW
  let st${x} = (sg * ${XW}u + ${x}u) * ${TS*CH}u;
#endfor
#for i 0 2
#for j 0 2
#for x 0 XW
  coopStoreT(c${x}_${i}_${j}, &St[st${x}], ls);
#endfor
  workgroupBarrier();
#if 4*TS*CH == NT
  {
    let e = t;
#else
  for (var e = t; e < ${4*TS*CH}u; e += ${NT}u) {
#endif
    let at = e % ${TS*CH}u;
    let dy = e / ${2*TS*CH}u;
    let dx = e / ${TS*CH}u % 2u;
    let square = ${i*TS}u + at / ${CH}u;
    let y = y0 + square / ${PX}u * 2u + dy;
    let x = x0 + square % ${PX}u * 2u + dx;
    let n = n0 + ${j*TS}u + at % ${CH}u * 4u;
    let sum = column(at, dy, 1u) + select(1.0, -1.0, dx == 1u) * (column(at, dy, 2u) + column(at, dy, dx * 3u));
    if (y >= p.first && y < p.m && x < p.ow && n < p.n) { put4((image * p.oh + y) * p.ow + x, n, 0u, 4.0 * sum); }
  }
  workgroupBarrier();
#endfor
#endfor
}
// The sum over the rows of a column of matrices for upper or lower pixels.
fn column(at: u32, dy: u32, j: u32) -> vec4<f32> {
  let o = at + j * ${TS*CH}u;
  return St[o + ${4*TS*CH}u] + select(1.0, -1.0, dy == 1u) * (St[o + ${8*TS*CH}u] + St[o + dy * ${12*TS*CH}u]);
}
