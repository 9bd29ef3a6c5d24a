// softmax(q k^T scale + mask) v for one head and 64 query rows with f32 math, 64 keys at a time, on
// 256 lanes: more waves share what shared memory holds than in `attention`, for devices whose
// shared memory bounds how many run at once. A lane holds 4 rows by 4 keys of the scores, and of
// each 64 columns of the output 4 rows by 4 columns. VC output columns are made, other z make the
// others; KC keys at a time meet their values. What is read next is on its way while this is
// multiplied. Wants rows of whole quads. HD is the head's size.
#include attention_params
#define NJ VC/64
#define AT_K 272
#define AT_V 1088
// First queries [d 16][rows 64/4, padded to 17] and keys [d 16][keys]; then the peaks that lanes
// found of their rows; then probabilities [key 64][rows] and values [key KC][columns].
var<workgroup> sh: array<vec4<f32>, 1344>;

// A load under a condition is waited for at once. Past the end the last row or columns are read:
// such columns of queries count as zero, such keys are left out by `score`, such rows are not
// stored.
fn q_quad(row: u32, d: u32, head: u32) -> vec4<f32> {
  let v = Q_4(p.q_off + (min(row, p.rows - 1u) * p.heads + head) * p.hd + min(d, p.hd - 4u));
  return select(v, vec4<f32>(0.0), d >= p.hd);
}
fn k_quad(row: u32, d: u32, head: u32) -> vec4<f32> {
  return K_4(p.k_off + (min(row, p.m - 1u) * p.heads + head) * p.hd + min(d, p.hd - 4u));
}
fn v_quad(row: u32, d: u32, head: u32) -> vec4<f32> {
  return V_4(p.v_off + (min(row, p.m - 1u) * p.heads + head) * p.hd + min(d, p.hd - 4u));
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = wg.y;
  let q0 = wg.x * 64u;
  let col0 = wg.z * ${VC}u;
  let r4 = t % 16u;
  let c4 = t / 16u;
  // What this lane reads: a row and a quad of columns of queries and keys, a key and a quad of
  // values.
  let lr = t / 4u;
  let ld = t % 4u * 4u;
  let vk = t / ${NJ*16}u;
  let vc = col0 + t % ${NJ*16}u * 4u;
  let row_at = ld * 17u + lr / 4u;
#for i 0 4
#for j 0 NJ
  var o${i}_${j} = vec4<f32>(0.0);
#endfor
#endfor
  var top = vec4<f32>(-3.0e38);
  var sum = vec4<f32>(0.0);
  var qv = q_quad(q0 + lr, ld, head);
  var kv = k_quad(lr, ld, head);
  for (var k0 = 0u; k0 < p.m; k0 += 64u) {
#for i 0 4
    var s${i} = vec4<f32>(0.0);
#endfor
    for (var d0 = 0u; d0 < ${HD}u; d0 += 16u) {
#for j 0 4
      sh[row_at + ${17*j}u][lr % 4u] = qv[${j}];
      sh[row_at + ${AT_K+17*j}u][lr % 4u] = kv[${j}];
#endfor
      workgroupBarrier();
      // The next columns, or the first ones of the next keys.
      let more = d0 + 16u < ${HD}u;
      let dn = select(0u, d0 + 16u, more) + ld;
      qv = q_quad(q0 + lr, dn, head);
      kv = k_quad(select(k0 + 64u, k0, more) + lr, dn, head);
#for d 0 16
      let a${d} = sh[${17*d}u + r4];
      let b${d} = sh[${AT_K+17*d}u + c4];
#for i 0 4
      s${i} = fma(vec4<f32>(a${d}[${i}]), b${d}, s${i});
#endfor
#endfor
      workgroupBarrier();
    }
    // The first values, read while the softmax is made.
    var vv = v_quad(k0 + vk, vc, head);
    var peak: vec4<f32>;
#for i 0 4
#for e 0 4
    s${i}[${e}] = score(s${i}[${e}], q0 + r4 * 4u + ${i}u, k0 + c4 * 4u + ${e}u, head, 0u);
#endfor
    peak[${i}] = max(max(s${i}.x, s${i}.y), max(s${i}.z, s${i}.w));
#endfor
    sh[c4 * 16u + r4] = peak;
    workgroupBarrier();
    var next = top;
    for (var c = 0u; c < 16u; c++) { next = max(next, sh[c * 16u + r4]); }
    let factor = exp2(top - next);
    top = next;
    // A row that is masked everywhere so far keeps zero sums instead of exp2(0).
    let base = max(top, vec4<f32>(-1.0e38));
#for i 0 4
    s${i} = exp2(s${i} - base[${i}]);
    sum[${i}] = sum[${i}] * factor[${i}] + (s${i}.x + s${i}.y) + (s${i}.z + s${i}.w);
#for j 0 NJ
    o${i}_${j} = o${i}_${j} * factor[${i}];
#endfor
#endfor
    workgroupBarrier();
#for e 0 4
    sh[(c4 * 4u + ${e}u) * 17u + r4] = vec4<f32>(s0[${e}], s1[${e}], s2[${e}], s3[${e}]);
#endfor
    for (var kc = 0u; kc < 64u; kc += ${KC}u) {
      sh[${AT_V}u + t] = vv;
      workgroupBarrier();
      vv = v_quad(k0 + kc + ${KC}u + vk, vc, head);
#for k 0 KC
      let p${k} = sh[(kc + ${k}u) * 17u + r4];
#for j 0 NJ
      let v${k}_${j} = sh[${AT_V+k*NJ*16+16*j}u + c4];
#for i 0 4
      o${i}_${j} = fma(vec4<f32>(p${k}[${i}]), v${k}_${j}, o${i}_${j});
#endfor
#endfor
#endfor
      workgroupBarrier();
    }
  }
  sh[c4 * 16u + r4] = sum;
  workgroupBarrier();
  var total = vec4<f32>(0.0);
  for (var c = 0u; c < 16u; c++) { total += sh[c * 16u + r4]; }
#for i 0 4
  let row${i} = q0 + r4 * 4u + ${i}u;
  if (row${i} < p.rows) {
#if LOG
    if (c4 == 0u && wg.z == 0u) { put_log(row${i}, head, top[${i}], total[${i}]); }
#endif
#for j 0 NJ
    put(row${i}, col0 + (c4 + ${16*j}u) * 4u, head, o${i}_${j} / total[${i}]);
#endfor
  }
#endfor
}
fn put(row: u32, col: u32, head: u32, v: vec4<f32>) {
  if (col < p.hd) { O_set4(p.o_off + (row * p.heads + head) * p.hd + col, v); }
}
