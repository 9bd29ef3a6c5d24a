// softmax(q k^T scale + mask) v for one head and BQ query rows, BKV keys at a time, on cooperative
// matrices. A subgroup owns WQ rows: their queries and output sums stay in its registers. Scores
// pass through shared memory as f32, probabilities as f16. The running maximum only moves when a
// row grows by 2^8, since moving it means scaling the output sums, which live in matrices.
// HDP is the head size rounded up to TS; the head size is a multiple of 8.
// VT: values lie in shared memory as [column][key], two keys to a word, so that a lane reads its
// part of a matrix in whole words. AMD's lanes hold a column of that operand: as rows they would
// be gathered by 16 reads of two bytes. QS: queries stay in shared memory rather than in registers.
enable f16;
enable wgpu_cooperative_matrix;
#include attention_params
#define NSG BQ/WQ
#define NT NSG*SG
#define CHD HDP/8
#define LD HDP/4+2
#define LS BKV/4+1
#define LP BKV/4+2
#define TQ WQ/TS
#define TK BKV/TS
#define TH HDP/TS
#define LPR SG/WQ
#define CPL BKV/LPR
#define NKV (BKV*CHD+NT-1)/NT
#define HK BKV/2
#define LV HK+4
#define NV (HK*CHD+NT-1)/NT
// One struct, so that all begin at a multiple of 16 bytes as matrix loads want.
struct Shared {
  s: array<vec4<f32>, ${BQ*LS}>,
  p: array<vec4<f16>, ${BQ*LP}>,
  k: array<vec4<f16>, ${BKV*LD}>,
#if VT
  v: array<vec2<f16>, ${HDP*LV}>,
#else
  v: array<vec4<f16>, ${BKV*LD}>,
#endif
#if QS
  q: array<vec4<f16>, ${BQ*LD}>,
#endif
}
var<workgroup> sh: Shared;
var<workgroup> moved: u32;

fn kv_index(base: u32, row: u32, c: u32, head: u32) -> u32 {
  return (base + (row * p.heads + head) * p.hd + c * 8u) >> 3u;
}

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32,
        @builtin(subgroup_id) sg: u32, @builtin(subgroup_invocation_id) lane: u32) {
#if HALVES
  begin_scores();
#endif
  let head = wg.y;
  let q_off = p.q_off + wg.z * p.q_batch;
  let k_off = p.k_off + wg.z * p.kv_batch;
  let v_off = p.v_off + wg.z * p.kv_batch;
  let q0 = wg.x * ${BQ}u;
  let row = lane / ${LPR}u; // the row of its subgroup this lane does softmax for
  let part = lane % ${LPR}u;
  let my_row = q0 + sg * ${WQ}u + row;
#if QS
  for (var i = t; i < ${BQ*CHD}u; i += ${NT}u) {
    let r = i / ${CHD}u;
    let c = i % ${CHD}u;
    var v = mat2x4<f16>();
    if (q0 + r < p.rows && c * 8u < p.hd) { v = Q[kv_index(q_off, q0 + r, c, head)]; }
    sh.q[r * ${LD}u + c * 2u] = v[0];
    sh.q[r * ${LD}u + c * 2u + 1u] = v[1];
  }
#else
  // Queries go through Ps once, TS columns at a time, into the registers of their subgroup.
#for h 0 TH
  for (var i = t; i < ${BQ*TS/8}u; i += ${NT}u) {
    let r = i / ${TS/8}u;
    let c = i % ${TS/8}u;
    var v = mat2x4<f16>();
    if (q0 + r < p.rows && ${h*TS}u + c * 8u < p.hd) { v = Q[kv_index(q_off, q0 + r, ${h*TS/8}u + c, head)]; }
    sh.p[r * ${LP}u + c * 2u] = v[0];
    sh.p[r * ${LP}u + c * 2u + 1u] = v[1];
  }
  workgroupBarrier();
#for i 0 TQ
  let q${i}_${h} = coopLoadT<coop_mat${TS}x${TS}<f16, A>>(&sh.p[(sg * ${WQ}u + ${i*TS}u) * ${LP}u], ${LP}u);
#endfor
  workgroupBarrier();
#endfor
#endif
#for i 0 TQ
#for h 0 TH
  var o${i}_${h} = coop_mat${TS}x${TS}<f32, C>();
#endfor
#endfor
  if (t == 0u) { moved = 0u; }
  var top = -3.0e38;
  var sum = 0.0;
  // A load under a condition is waited for at once. Past the end the last key or columns are read
  // instead: queries are zero in such columns, probabilities for such keys.
  let last = p.hd / 8u - 1u;
#for i 0 NKV
  var kv${i}: mat2x4<f16>;
#if !VT
  var vv${i}: mat2x4<f16>;
#endif
  let i${i} = t + ${i*NT}u;
  let r${i} = i${i} / ${CHD}u;
  let c${i} = i${i} % ${CHD}u;
  kv${i} = K[kv_index(k_off, min(r${i}, p.m - 1u), min(c${i}, last), head)];
#if !VT
  vv${i} = V[kv_index(v_off, min(r${i}, p.m - 1u), min(c${i}, last), head)];
#endif
#endfor
#if VT
  // Two keys and eight columns a lane.
#for i 0 NV
  let vi${i} = t + ${i*NT}u;
  let vr${i} = vi${i} % ${HK}u * 2u;
  let vc${i} = vi${i} / ${HK}u;
  var va${i} = V[kv_index(v_off, min(vr${i}, p.m - 1u), min(vc${i}, last), head)];
  var vb${i} = V[kv_index(v_off, min(vr${i} + 1u, p.m - 1u), min(vc${i}, last), head)];
#endfor
#endif
  for (var k0 = 0u; k0 < p.m; k0 += ${BKV}u) {
#for i 0 NKV
    if (i${i} < ${BKV*CHD}u) {
      sh.k[r${i} * ${LD}u + c${i} * 2u] = kv${i}[0];
      sh.k[r${i} * ${LD}u + c${i} * 2u + 1u] = kv${i}[1];
#if !VT
      sh.v[r${i} * ${LD}u + c${i} * 2u] = vv${i}[0];
      sh.v[r${i} * ${LD}u + c${i} * 2u + 1u] = vv${i}[1];
#endif
    }
#endfor
#if VT
#for i 0 NV
    if (vi${i} < ${HK*CHD}u) {
      let vo${i} = vc${i} * ${8*LV}u + vr${i} / 2u;
#for e 0 8
      sh.v[vo${i} + ${e*LV}u] = vec2<f16>(va${i}[${e/4}][${e%4}], vb${i}[${e/4}][${e%4}]);
#endfor
    }
#endfor
#endif
    workgroupBarrier();
    let k1 = k0 + ${BKV}u;
    if (k1 < p.m) {
#for i 0 NKV
      kv${i} = K[kv_index(k_off, min(k1 + r${i}, p.m - 1u), min(c${i}, last), head)];
#if !VT
      vv${i} = V[kv_index(v_off, min(k1 + r${i}, p.m - 1u), min(c${i}, last), head)];
#endif
#endfor
#if VT
#for i 0 NV
      va${i} = V[kv_index(v_off, min(k1 + vr${i}, p.m - 1u), min(vc${i}, last), head)];
      vb${i} = V[kv_index(v_off, min(k1 + vr${i} + 1u, p.m - 1u), min(vc${i}, last), head)];
#endfor
#endif
    }
    // Scores.
    let sb = sg * ${WQ*LS}u;
    let ls = ${LS}u;
#if QS
    // A query's columns are read once for all keys of the block.
#for j 0 TK
#for i 0 TQ
    var s${i}_${j} = coop_mat${TS}x${TS}<f32, C>();
#endfor
#endfor
#for h 0 TH
#for i 0 TQ
    let q${i}_${h} = coopLoadT<coop_mat${TS}x${TS}<f16, A>>(&sh.q[(sg * ${WQ}u + ${i*TS}u) * ${LD}u + ${h*TS/4}u], ${LD}u);
#endfor
#for j 0 TK
    let kf${j}_${h} = coopLoad<coop_mat${TS}x${TS}<f16, B>>(&sh.k[${j*TS*LD+h*TS/4}u], ${LD}u);
#for i 0 TQ
    s${i}_${j} = coopMultiplyAdd(q${i}_${h}, kf${j}_${h}, s${i}_${j});
#endfor
#endfor
#endfor
#for j 0 TK
#for i 0 TQ
    let at${i}_${j} = sb + ${i*TS*LS+j*TS/4}u;
    coopStoreT(s${i}_${j}, &sh.s[at${i}_${j}], ls);
#endfor
#endfor
#else
#for j 0 TK
#for i 0 TQ
    var s${i}_${j} = coop_mat${TS}x${TS}<f32, C>();
#endfor
#for h 0 TH
    let kf${j}_${h} = coopLoad<coop_mat${TS}x${TS}<f16, B>>(&sh.k[${j*TS*LD+h*TS/4}u], ${LD}u);
#for i 0 TQ
    s${i}_${j} = coopMultiplyAdd(q${i}_${h}, kf${j}_${h}, s${i}_${j});
#endfor
#endfor
#for i 0 TQ
    let at${i}_${j} = sb + ${i*TS*LS+j*TS/4}u;
    coopStoreT(s${i}_${j}, &sh.s[at${i}_${j}], ls);
#endfor
#endfor
#endif
    workgroupBarrier();
    // Softmax, LPR lanes a row.
    let rb = sb + row * ${LS}u + part * ${CPL/4}u;
    var peak = -3.0e38;
#for j 0 CPL/4
    var x${j} = sh.s[rb + ${j}u];
#for e 0 4
    x${j}[${e}] = score(x${j}[${e}], my_row, k0 + part * ${CPL}u + ${j*4+e}u, head, wg.z);
#endfor
    peak = max(peak, max(max(x${j}.x, x${j}.y), max(x${j}.z, x${j}.w)));
#endfor
#if LPR > 1
    peak = max(peak, subgroupShuffleXor(peak, 1u));
#endif
#if LPR > 2
    peak = max(peak, subgroupShuffleXor(peak, 2u));
#endif
#if LPR > 4
    peak = max(peak, subgroupShuffleXor(peak, 4u));
#endif
    let grow = peak > top + 8.0;
    let next = select(top, peak, grow);
    let factor = exp2(top - next);
    if (grow && k0 > 0u) { moved = 1u; }
    top = next;
    sum = sum * factor;
    let pb = sg * ${WQ*LP}u + row * ${LP}u + part * ${CPL/4}u;
#for j 0 CPL/4
    let e${j} = exp2(x${j} - vec4<f32>(max(top, -1.0e38)));
    sum += (e${j}.x + e${j}.y) + (e${j}.z + e${j}.w);
    sh.p[pb + ${j}u] = vec4<f16>(e${j});
#endfor
    if (workgroupUniformLoad(&moved) != 0u) {
      // Scale the sums of the rows that moved, a matrix at a time through the scores.
#for i 0 TQ
#for h 0 TH
      coopStoreT(o${i}_${h}, &sh.s[sb], ls);
      workgroupBarrier();
      if (row / ${TS}u == ${i}u) {
        let ro = sb + (row % ${TS}u) * ${LS}u;
        for (var e = part; e < ${TS/4}u; e += ${LPR}u) { sh.s[ro + e] = sh.s[ro + e] * factor; }
      }
      workgroupBarrier();
      o${i}_${h} = coopLoadT<coop_mat${TS}x${TS}<f32, C>>(&sh.s[sb], ls);
      workgroupBarrier();
#endfor
#endfor
    }
#for j 0 TK
#for i 0 TQ
    let pf${i}_${j} = coopLoadT<coop_mat${TS}x${TS}<f16, A>>(&sh.p[sg * ${WQ*LP}u + ${i*TS*LP+j*TS/4}u], ${LP}u);
#endfor
#for h 0 TH
#if VT
    let vf${j}_${h} = coopLoad<coop_mat${TS}x${TS}<f16, B>>(&sh.v[${h*TS*LV+j*TS/2}u], ${LV}u);
#else
    let vf${j}_${h} = coopLoadT<coop_mat${TS}x${TS}<f16, B>>(&sh.v[${j*TS*LD+h*TS/4}u], ${LD}u);
#endif
#for i 0 TQ
    o${i}_${h} = coopMultiplyAdd(pf${i}_${j}, vf${j}_${h}, o${i}_${h});
#endfor
#endfor
#endfor
    if (t == 0u) { moved = 0u; }
    workgroupBarrier();
  }
#if LPR > 1
  sum += subgroupShuffleXor(sum, 1u);
#endif
#if LPR > 2
  sum += subgroupShuffleXor(sum, 2u);
#endif
#if LPR > 4
  sum += subgroupShuffleXor(sum, 4u);
#endif
#if LOG
  if (part == 0u && my_row < p.rows) { put_log(my_row, head, top, sum); }
#endif
#if HALVES
  let inv = value_factor() / sum;
#else
  let inv = 1.0 / sum;
#endif
  let sb = sg * ${WQ*LS}u;
  let ls = ${LS}u;
#for i 0 TQ
#for h 0 TH
  coopStoreT(o${i}_${h}, &sh.s[sb], ls);
  workgroupBarrier();
  if (row / ${TS}u == ${i}u && my_row < p.rows) {
    for (var e = part * 4u; e < ${TS}u; e += ${LPR*4}u) {
      let col = ${h*TS}u + e;
      if (col < p.hd) {
        O_set4(p.o_off + wg.z * p.q_batch + (my_row * p.heads + head) * p.hd + col, sh.s[sb + (row % ${TS}u) * ${LS}u + e / 4u] * inv);
      }
    }
  }
  workgroupBarrier();
#endfor
#endfor
}
