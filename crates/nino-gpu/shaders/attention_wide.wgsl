// softmax(q k^T scale + mask) v for one wide head and BQ query rows, on cooperative matrices. The
// head is cut into a slice per subgroup: each multiplies its slice of q and k into a part of the
// scores, the parts are summed in shared memory, and each multiplies the probabilities with its
// slice of v. So no subgroup shares an operand with another, and q, k and v go straight from memory
// to registers. The last block of rows or keys is moved back to end with the tensor; what was done
// before is left out. Wants whole TS-wide slices and at least BQ rows and BKV keys.
// VT: values go through shared memory, where they lie as [column][key], two keys to a word: see
// `attention_coop`.
enable f16;
enable wgpu_cooperative_matrix;
#include attention_params
#define NT NW*SG
#define SL HD/NW
#define TQ BQ/TS
#define TK BKV/TS
#define TH SL/TS
#define LS BKV/4+1
#define LP BKV/4+2
#define HK BKV/2
#define LV HK+4
#define NV SL*HK/4/SG
// One struct, so that both begin at a multiple of 16 bytes as matrix loads want.
struct Shared {
  s: array<vec4<f32>, ${NW*BQ*LS}>,
  p: array<vec4<f16>, ${BQ*LP}>,
#if VT
  v: array<vec2<f16>, ${NW*SL*LV}>,
#endif
}
var<workgroup> sh: Shared;
var<workgroup> Fs: array<f32, ${BQ}>;
var<workgroup> moved: u32;

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32,
        @builtin(subgroup_id) sg: u32, @builtin(subgroup_invocation_id) lane: u32) {
  let head = wg.y;
  let q0 = min(wg.x * ${BQ}u, p.rows - ${BQ}u);
  let width = p.heads * ${HD}u;
  let w4 = width >> 2u;
  let slice = head * ${HD}u + sg * ${SL}u;
  let q_off = p.q_off + wg.z * p.q_batch;
  let o_off = p.o_off + wg.z * p.q_batch;
  // The row this lane does softmax for, with seven others; lanes past the last row repeat it.
  let row = min(t / 8u, ${BQ-1}u);
  let part = t % 8u;
  let mine = t < ${BQ*8}u;
#for i 0 TQ
#for h 0 TH
  let qa${i}_${h} = (q_off + (q0 + ${i*TS}u) * width + slice + ${h*TS}u) >> 2u;
  let q${i}_${h} = coopLoadT<coop_mat${TS}x${TS}<f16, A>>(&Q[qa${i}_${h}], w4);
  var o${i}_${h} = coop_mat${TS}x${TS}<f32, C>();
#endfor
#endfor
  if (t == 0u) { moved = 0u; }
  var top = -3.0e38;
  var sum = 0.0;
  let k_base = p.k_off + wg.z * p.kv_batch + slice;
  let v_base = p.v_off + wg.z * p.kv_batch + slice;
#for j 0 TK
#for h 0 TH
  var k${j}_${h} = coopLoad<coop_mat${TS}x${TS}<f16, B>>(&K[(k_base + ${j*TS}u * width + ${h*TS}u) >> 2u], w4);
#endfor
#endfor
  let sb = sg * ${BQ*LS}u;
  let ls = ${LS}u;
  for (var done = 0u; done < p.m; done += ${BKV}u) {
    let k0 = min(done, p.m - ${BKV}u);
#for j 0 TK
#for i 0 TQ
    var s${i}_${j} = coop_mat${TS}x${TS}<f32, C>();
#for h 0 TH
    s${i}_${j} = coopMultiplyAdd(q${i}_${h}, k${j}_${h}, s${i}_${j});
#endfor
    let at${i}_${j} = sb + ${i*TS*LS+j*TS/4}u;
    coopStoreT(s${i}_${j}, &sh.s[at${i}_${j}], ls);
#endfor
#endfor
    // Read while the softmax is made.
#if VT
#for i 0 NV
    let vi${i} = (v_base + (k0 + lane % ${HK}u * 2u) * width + (lane / ${HK}u + ${i*SG/HK}u) * 4u) >> 2u;
    let va${i} = V[vi${i}];
    let vb${i} = V[vi${i} + w4];
#endfor
#else
#for j 0 TK
#for h 0 TH
    let v${j}_${h} = coopLoadT<coop_mat${TS}x${TS}<f16, B>>(&V[(v_base + (k0 + ${j*TS}u) * width + ${h*TS}u) >> 2u], w4);
#endfor
#endfor
#endif
    workgroupBarrier();
#if VT
    // Behind the barrier: all have read the values before.
#for i 0 NV
    let vo${i} = (sg * ${SL}u + (lane / ${HK}u + ${i*SG/HK}u) * 4u) * ${LV}u + lane % ${HK}u;
#for e 0 4
    sh.v[vo${i} + ${e*LV}u] = vec2<f16>(va${i}[${e}], vb${i}[${e}]);
#endfor
#endfor
#endif
    let rb = row * ${LS}u + part;
    var x = vec4<f32>(0.0);
#for w 0 NW
    x += sh.s[rb + ${w*BQ*LS}u];
#endfor
#for e 0 4
    x[${e}] = select(score(x[${e}], q0 + row, k0 + part * 4u + ${e}u, head, wg.z), -3.0e38, k0 + part * 4u + ${e}u < done);
#endfor
    var peak = max(max(x.x, x.y), max(x.z, x.w));
    peak = max(peak, subgroupShuffleXor(peak, 1u));
    peak = max(peak, subgroupShuffleXor(peak, 2u));
    peak = max(peak, subgroupShuffleXor(peak, 4u));
    let grow = peak > top + 8.0;
    let next = select(top, peak, grow);
    let factor = exp2(top - next);
    if (grow && done > 0u) { moved = 1u; }
    if (mine && part == 0u) { Fs[row] = factor; }
    top = next;
    sum = sum * factor;
    let y = exp2(x - vec4<f32>(max(top, -1.0e38)));
    sum += (y.x + y.y) + (y.z + y.w);
    if (mine) { sh.p[row * ${LP}u + part] = vec4<f16>(y); }
    if (workgroupUniformLoad(&moved) != 0u) {
#for i 0 TQ
#for h 0 TH
      coopStoreT(o${i}_${h}, &sh.s[sb], ls);
      workgroupBarrier();
      for (var e = lane; e < ${TS*TS/4}u; e += ${SG}u) {
        let at = sb + e / ${TS/4}u * ${LS}u + e % ${TS/4}u;
        sh.s[at] = sh.s[at] * Fs[${i*TS}u + e / ${TS/4}u];
      }
      workgroupBarrier();
      o${i}_${h} = coopLoadT<coop_mat${TS}x${TS}<f32, C>>(&sh.s[sb], ls);
      workgroupBarrier();
#endfor
#endfor
    }
    // The next keys, read while the values are multiplied; past the end, keys already seen.
    let k1 = min(done + ${BKV}u, p.m - ${BKV}u);
#for j 0 TK
#for h 0 TH
    k${j}_${h} = coopLoad<coop_mat${TS}x${TS}<f16, B>>(&K[(k_base + (k1 + ${j*TS}u) * width + ${h*TS}u) >> 2u], w4);
#endfor
#endfor
#for i 0 TQ
#for j 0 TK
    let p${i}_${j} = coopLoadT<coop_mat${TS}x${TS}<f16, A>>(&sh.p[${i*TS*LP+j*TS/4}u], ${LP}u);
#for h 0 TH
#if VT
    let v${i}_${j}_${h} = coopLoad<coop_mat${TS}x${TS}<f16, B>>(&sh.v[sg * ${SL*LV}u + ${h*TS*LV+j*TS/2}u], ${LV}u);
    o${i}_${h} = coopMultiplyAdd(p${i}_${j}, v${i}_${j}_${h}, o${i}_${h});
#else
    o${i}_${h} = coopMultiplyAdd(p${i}_${j}, v${j}_${h}, o${i}_${h});
#endif
#endfor
#endfor
#endfor
    if (t == 0u) { moved = 0u; }
  }
  sum += subgroupShuffleXor(sum, 1u);
  sum += subgroupShuffleXor(sum, 2u);
  sum += subgroupShuffleXor(sum, 4u);
  workgroupBarrier();
  if (mine && part == 0u) {
    Fs[row] = 1.0 / sum;
#if LOG
    if (q0 + row >= wg.x * ${BQ}u) { put_log(q0 + row, head, top, sum); }
#endif
  }
#for i 0 TQ
#for h 0 TH
  coopStoreT(o${i}_${h}, &sh.s[sb], ls);
  workgroupBarrier();
  for (var e = lane; e < ${TS*TS/4}u; e += ${SG}u) {
    let r = e / ${TS/4}u;
    let c = e % ${TS/4}u;
    let y = q0 + ${i*TS}u + r;
    if (y >= wg.x * ${BQ}u) {
      O_set4(o_off + y * width + slice + ${h*TS}u + c * 4u, sh.s[sb + r * ${LS}u + c] * Fs[${i*TS}u + r]);
    }
  }
  workgroupBarrier();
#endfor
#endfor
}
