// O[m, n] = epilogue(sum_k A[m, k] * W[n, k]) on cooperative matrices, f16 in, f32 accumulate.
// A is rows of a tensor or the taps of a convolution (CONV). A workgroup makes a BM x BN tile, a
// subgroup a WM x WN part of it in TS x TS matrices held in registers. While one K step is
// multiplied from shared memory the next is on its way from memory into registers, from which it is
// stored in the same round: Mesa copies the halves of 16-bit values that a loop carries, register
// by register. Steps past the end of K multiply zeros.
// Loads stand under no condition: one that does is waited for at once. The stores stand under one,
// so that no compiler moves them, and the wait for the loads, in front of the products.
// Wants K and the channel count to be multiples of 8, N a multiple of 8; M, N, K need fit no tile.
enable f16;
enable wgpu_cooperative_matrix;
#define NSN BN/WN
#define NT (BM/WM)*NSN*SG
#define CH BK/8
#define RP NT/CH
#define NA BM/RP
#define NB BN/RP
#define LD BK/4+PAD
#define TI WM/TS
#define TJ WN/TS
#define LS TS/4+1
// The residual can be read early: of 16 bits, and a lane stores once for each matrix.
#define EARLY RES&&RT>0&&TS*TS/8==SG
#include gemm_bind
var<workgroup> As: array<vec4<f16>, ${BM*LD}>;
var<workgroup> Bs: array<vec4<f16>, ${BN*LD}>;
var<workgroup> St: array<vec4<f32>, ${(NT/SG)*TS*LS}>;

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32,
        @builtin(subgroup_id) sg: u32, @builtin(subgroup_invocation_id) lane: u32) {
#if SWAP
  let m0 = wg.x * ${BM}u;
  let n0 = wg.y * ${BN}u;
#else
  let m0 = wg.y * ${BM}u;
  let n0 = wg.x * ${BN}u;
#endif
  let sm = (sg / ${NSN}u) * ${WM}u;
  let sn = (sg % ${NSN}u) * ${WN}u;
  let q = t % ${CH}u;
  let r = t / ${CH}u;
#for i 0 TI
#for j 0 TJ
  var c${i}_${j} = coop_mat${TS}x${TS}<f32, C>();
#endfor
#endfor
  a_begin(q * 8u, wg.z);
#for i 0 NA
  let ar${i} = a_row(m0 + r + ${i*RP}u, wg.z);
  var ao${i} = a_offset(ar${i}, wg.z);
#endfor
  var kk = q * 8u; // of the step that is being read
#for i 0 NA
  let a${i} = a_load(ao${i}, kk);
#endfor
#for i 0 NB
  let b${i} = w_load8(n0 + r + ${i*RP}u, kk, wg.z);
#endfor
#for i 0 NA
  put_a((r + ${i*RP}u) * ${LD}u + q * 2u, a_ready(a${i}, ar${i}, ao${i}, kk));
#endfor
#for i 0 NB
  put_b((r + ${i*RP}u) * ${LD}u + q * 2u, b${i});
#endfor
  let ab = sm * ${LD}u;
  let bb = sn * ${LD}u;
  let rounds = (p.k + ${BK-1}u) / ${BK}u;
  for (var s = 0u; s < rounds; s++) {
    workgroupBarrier();
    kk += ${BK}u;
    if (a_advance(${BK}u)) {
#for i 0 NA
      ao${i} = a_offset(ar${i}, wg.z);
#endfor
    }
#for i 0 NA
    let av${i} = a_load(ao${i}, kk);
#endfor
#for i 0 NB
    let bv${i} = w_load8(n0 + r + ${i*RP}u, kk, wg.z);
#endfor
#for kq 0 BK/TS
#for j 0 TJ
    let b${kq}_${j} = coopLoad<coop_mat${TS}x${TS}<f16, B>>(&Bs[bb + ${j*TS*LD+kq*TS/4}u], ${LD}u);
#endfor
#for i 0 TI
    let a${kq}_${i} = coopLoadT<coop_mat${TS}x${TS}<f16, A>>(&As[ab + ${i*TS*LD+kq*TS/4}u], ${LD}u);
#for j 0 TJ
    c${i}_${j} = coopMultiplyAdd(a${kq}_${i}, b${kq}_${j}, c${i}_${j});
#endfor
#endfor
#endfor
    workgroupBarrier();
    if (s + 1u < rounds) {
#for i 0 NA
    put_a((r + ${i*RP}u) * ${LD}u + q * 2u, a_ready(av${i}, ar${i}, ao${i}, kk));
#endfor
#for i 0 NB
    put_b((r + ${i*RP}u) * ${LD}u + q * 2u, bv${i});
#endfor
    }
  }
  // Through shared memory, a matrix at a time: lanes then hold 8 neighbours of a row each.
  let sb = sg * ${TS*LS}u;
  let ls = ${LS}u;
#if EARLY
  // All of the residual at once: asked for one by one, each matrix would wait for its own.
  let rm = m0 + sm + lane / ${TS/8}u;
  let rn = n0 + sn + (lane % ${TS/8}u) * 8u;
#for i 0 TI
#for j 0 TJ
  let r${i}_${j} = res8(min(rm + ${i*TS}u, p.m - 1u), min(rn + ${j*TS}u, p.n - 8u), wg.z);
#endfor
#endfor
#endif
#for i 0 TI
#for j 0 TJ
  coopStoreT(c${i}_${j}, &St[sb], ls);
  workgroupBarrier();
  for (var e = lane; e < ${TS*TS/8}u; e += ${SG}u) {
    let er = e / ${TS/8}u;
    let ec = e % ${TS/8}u;
    let m = m0 + sm + ${i*TS}u + er;
    let n = n0 + sn + ${j*TS}u + ec * 8u;
    if (m < p.m && n < p.n) {
      let o = sb + er * ${LS}u + ec * 2u;
#if EARLY
      store8_with(r${i}_${j}, m, n, wg.z, St[o], St[o + 1u]);
#else
      store8(m, n, wg.z, St[o], St[o + 1u]);
#endif
    }
  }
  workgroupBarrier();
#endfor
#endfor
}
fn put_a(at: u32, v: mat2x4<f16>) {
  As[at] = v[0];
  As[at + 1u] = v[1];
}
fn put_b(at: u32, v: mat2x4<f16>) {
  Bs[at] = v[0];
  Bs[at + 1u] = v[1];
}
