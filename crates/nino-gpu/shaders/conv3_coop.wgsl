// 3x3 convolution, stride 1, on cooperative matrices, f16 in, f32 accumulate; over KT frames, from
// an image's own on, where it is of clips. A workgroup makes a TY x TX patch of one image for BN
// output channels. BK input channels of the patch and its border are read into shared memory once
// and serve all nine taps: a matrix of 16 neighbouring pixels is the same memory, shifted. That
// leaves an ninth of the reads (and of the norm prologue's work) of an implicit GEMM. Weights pass
// through shared memory TPS taps at a time. Wants cin and cout to be multiples of 8; sizes need fit
// no tile.
enable f16;
enable wgpu_cooperative_matrix;
#define STRIPS TY*TX/TS
#define XT TX/TS
#define TI WM/TS
#define TJ WN/TS
#define NSN BN/WN
#define NT (STRIPS/TI)*NSN*SG
#define HW TX+2
#define HP HW*(TY+2)
#define CH BK/8
#define LD BK/4+2
#define NG 9/TPS
#define NA (HP*CH+NT-1)/NT
#define NB (BN*TPS*CH+NT-1)/NT
#define LS TS/4+1
#define F32 OT==0
#include gemm_bind
var<workgroup> As: array<vec4<f16>, ${HP*LD}>;
var<workgroup> Bs: array<vec4<f16>, ${BN*TPS*LD}>;
var<workgroup> St: array<vec4<f32>, ${(NT/SG)*TS*LS}>;

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32,
        @builtin(subgroup_id) sg: u32, @builtin(subgroup_invocation_id) lane: u32) {
  let n0 = wg.x * ${BN}u;
  let tiles_x = (p.ow + ${TX-1}u) / ${TX}u;
  let x0 = (wg.y % tiles_x) * ${TX}u;
  let y0 = p.first + (wg.y / tiles_x) * ${TY}u; // p.first: first row of the image to make
  let image = p.ot + wg.z;
  let strip = (sg / ${NSN}u) * ${TI}u;
  let sn = (sg % ${NSN}u) * ${WN}u;
#for i 0 TI
#for j 0 TJ
  var c${i}_${j} = coop_mat${TS}x${TS}<f32, C>();
#endfor
#endfor
#if KT > 1
  // p.t frames make p.rows_per.
  let source = image / p.rows_per * (p.t - p.rows_per) + image;
  let frame_size = (p.h / ${UP}u) * (p.w / ${UP}u) * p.c;
#else
  let source = image;
#endif
#for i 0 NA
  var av${i}: mat2x4<f16>;
  let ao${i} = halo(t + ${i*NT}u, y0, x0, source);
#endfor
#for i 0 NB
  var bv${i}: mat2x4<f16>;
  let bo${i} = weight_at(t + ${i*NT}u, n0);
#endfor
  // First stage.
#for i 0 NA
  av${i} = a_chunk(t + ${i*NT}u, ao${i}, 0u, 0u, image);
#endfor
#for i 0 NB
  bv${i} = b_chunk(t + ${i*NT}u, bo${i}, 0u, 0u, n0);
#endfor
#for i 0 NA
  a_put(t + ${i*NT}u, av${i});
#endfor
#for i 0 NB
  b_put(t + ${i*NT}u, bv${i});
#endfor
  workgroupBarrier();
  var c0 = 0u;
  var g = 0u;
  var ahead = 0u; // elements from the image's own frame to that of the stage
  var first_g = 0u; // groups of taps before that frame's
  let stages = ((p.c + ${BK-1}u) / ${BK}u) * ${NG*KT}u;
  for (var s = 1u; s <= stages; s++) {
    let gc = g;
    g += 1u;
    if (g == ${NG}u) { g = 0u; c0 += ${BK}u; }
#if KT > 1
    if (c0 >= p.c) { c0 = 0u; ahead += frame_size; first_g += ${NG}u; }
#endif
    if (s < stages) {
#for i 0 NB
      bv${i} = b_chunk(t + ${i*NT}u, bo${i}, first_g + g, c0, n0);
#endfor
      if (g == 0u) {
#for i 0 NA
        av${i} = a_chunk(t + ${i*NT}u, ao${i}, ahead, c0, image);
#endfor
      }
    }
#if TPS == 1
    let shift = ((gc / 3u) * ${HW}u + gc % 3u) * ${LD}u;
#elif TPS == 3
    let shift = gc * ${HW*LD}u;
#else
    let shift = 0u;
#endif
    let ab = shift + (strip / ${XT}u * ${HW}u + (strip % ${XT}u) * ${TS}u) * ${LD}u;
    let bb = sn * ${LD}u;
#for tap 0 TPS
#for kq 0 BK/TS
#for j 0 TJ
    let b${tap}_${kq}_${j} = coopLoad<coop_mat${TS}x${TS}<f16, B>>(&Bs[bb + ${(tap*BN+j*TS)*LD+kq*TS/4}u], ${LD}u);
#endfor
#for i 0 TI
    let a${tap}_${kq}_${i} = coopLoadT<coop_mat${TS}x${TS}<f16, A>>(&As[ab + ${((i/XT+tap/3)*HW+(i%XT)*TS+tap%3)*LD+kq*TS/4}u], ${LD}u);
#for j 0 TJ
    c${i}_${j} = coopMultiplyAdd(a${tap}_${kq}_${i}, b${tap}_${kq}_${j}, c${i}_${j});
#endfor
#endfor
#endfor
#endfor
    workgroupBarrier();
    if (s < stages) {
#for i 0 NB
      b_put(t + ${i*NT}u, bv${i});
#endfor
      if (g == 0u) {
#for i 0 NA
        a_put(t + ${i*NT}u, av${i});
#endfor
      }
    }
    workgroupBarrier();
  }
  let sb = sg * ${TS*LS}u;
  let ls = ${LS}u;
#for i 0 TI
#for j 0 TJ
  coopStoreT(c${i}_${j}, &St[sb], ls);
  workgroupBarrier();
  {
    let y = y0 + (strip + ${i}u) / ${XT}u;
    let n = n0 + sn + ${j*TS}u;
#if NARROW
    // Fewer channels than a matrix has columns: the pixels of a strip are one run of words.
    let run = (image * p.oh + y) * p.ow + x0 + ((strip + ${i}u) % ${XT}u) * ${TS}u;
    let left = i32(p.ow) - i32(x0 + ((strip + ${i}u) % ${XT}u) * ${TS}u);
    for (var e = lane; e < ${TS}u * p.n / ${2-F32}u; e += ${SG}u) {
      let k = e * ${2-F32}u;
      if (y < p.m && i32(k / p.n) < left) {
        O_word(p.o_off + run * p.n + k, vec2<f32>(narrow(sb, run, k),
#if F32
          0.0
#else
          narrow(sb, run, k + 1u)
#endif
        ));
      }
    }
#else
    for (var e = lane; e < ${TS*TS/8}u; e += ${SG}u) {
      let er = e / ${TS/8}u;
      let ec = e % ${TS/8}u;
      let x = x0 + ((strip + ${i}u) % ${XT}u) * ${TS}u + er;
      if (y < p.m && x < p.ow && n + ec * 8u < p.n) {
        let o = sb + er * ${LS}u + ec * 2u;
        store8((image * p.oh + y) * p.ow + x, n + ec * 8u, 0u, St[o], St[o + 1u]);
      }
    }
#endif
  }
  workgroupBarrier();
#endfor
#endfor
}
#if NARROW
// Value k of a strip: channel k % n of pixel k / n.
fn narrow(sb: u32, run: u32, k: u32) -> f32 {
  let c = k % p.n;
  return finish4(vec4<f32>(St[sb + k / p.n * ${LS}u + c / 4u][c % 4u]), run + k / p.n, c, 0u).x;
}
#endif
// Where chunk i of the patch (8 channels of a pixel) starts in X, without its channel.
fn halo(i: u32, y0: u32, x0: u32, image: u32) -> u32 {
  let pix = i / ${CH}u;
  let y = i32(y0 + pix / ${HW}u) - p.ph;
  let x = i32(x0 + pix % ${HW}u) - p.pw;
  if (pix >= ${HP}u || y < 0 || y >= i32(p.h) || x < 0 || x >= i32(p.w)) { return NONE; }
#if UP > 1
  return p.x_off + ((image * (p.h / ${UP}u) + u32(y) / ${UP}u) * (p.w / ${UP}u) + u32(x) / ${UP}u) * p.c + (i % ${CH}u) * 8u;
#else
  return p.x_off + ((image * p.h + u32(y)) * p.w + u32(x)) * p.c + (i % ${CH}u) * 8u;
#endif
}
fn a_chunk(i: u32, off: u32, ahead: u32, c0: u32, image: u32) -> mat2x4<f16> {
  var v = mat2x4<f16>();
#if CE
  let inside = off != NONE && c0 + (i % ${CH}u) * 8u < p.c;
#else
  let inside = off != NONE;
#endif
  if (inside) {
    v = X[(off + ahead + c0) >> 3u];
#if PRO
    v = pro8(v, image / p.rows_per, c0 + (i % ${CH}u) * 8u);
#endif
  }
  return v;
}
fn a_put(i: u32, v: mat2x4<f16>) {
  if (i < ${HP*CH}u) {
    let o = (i / ${CH}u) * ${LD}u + (i % ${CH}u) * 2u;
    As[o] = v[0];
    As[o + 1u] = v[1];
  }
}
// Chunk i of the weights of a stage: 8 channels of tap i / (BN * CH) and row i / CH % BN. WPACK:
// weights are [cin / BK, tap, cout, BK], so that a stage reads whole runs of memory. Taps are those
// of all frames.
fn weight_at(i: u32, n0: u32) -> u32 {
  let n = n0 + i / ${CH}u % ${BN}u;
#if WPACK
  return p.w_off + (i / ${CH*BN}u * p.n + n) * ${BK}u + (i % ${CH}u) * 8u;
#else
  return p.w_off + n * p.k + i / ${CH*BN}u * p.c + (i % ${CH}u) * 8u;
#endif
}
fn b_chunk(i: u32, off: u32, g: u32, c0: u32, n0: u32) -> mat2x4<f16> {
#if CE
  if (c0 + (i % ${CH}u) * 8u >= p.c) { return mat2x4<f16>(); }
#endif
#if NE
  if (n0 + i / ${CH}u % ${BN}u >= p.n) { return mat2x4<f16>(); }
#endif
#if NB*NT > BN*TPS*CH
  if (i >= ${BN*TPS*CH}u) { return mat2x4<f16>(); }
#endif
#if WPACK
  return w8(off + (c0 * ${9*KT}u + g * ${TPS*BK}u) * p.n);
#else
  return w8(off + g * ${TPS}u * p.c + c0);
#endif
}
fn b_put(i: u32, v: mat2x4<f16>) {
#if NB*NT > BN*TPS*CH
  if (i >= ${BN*TPS*CH}u) { return; }
#endif
  let o = (i / ${CH}u) * ${LD}u + (i % ${CH}u) * 2u;
  Bs[o] = v[0];
  Bs[o + 1u] = v[1];
}
