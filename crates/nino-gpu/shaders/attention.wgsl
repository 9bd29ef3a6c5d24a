// softmax(q k^T scale + mask) v for one head and 32 query rows with f32 math, 32 keys at a time and
// never more than that many scores. A lane holds 4 rows by 4 columns of the scores and of each 32
// columns of the output; VC output columns are made, other z make the others.
#include attention_params
#define NJ VC/32
var<workgroup> Qs: array<vec4<f32>, 288>; // [d 32][rows 32/4, padded to 9]
var<workgroup> Ks: array<vec4<f32>, 288>; // [d][keys], then values [key][columns]
var<workgroup> Ps: array<vec4<f32>, 288>; // [key][rows]
var<workgroup> red: array<vec4<f32>, 64>; // [column group][row group]
#for b 0 3
#if b == 0
fn q_quad(row: u32, d: u32, head: u32) -> vec4<f32> {
  if (row >= p.rows) { return vec4<f32>(0.0); }
  let at = p.q_off + (row * p.heads + head) * p.hd + d;
#elif b == 1
fn k_quad(row: u32, d: u32, head: u32) -> vec4<f32> {
  if (row >= p.m) { return vec4<f32>(0.0); }
  let at = p.k_off + (row * p.heads + head) * p.hd + d;
#else
fn v_quad(row: u32, d: u32, head: u32) -> vec4<f32> {
  if (row >= p.m) { return vec4<f32>(0.0); }
  let at = p.v_off + (row * p.heads + head) * p.hd + d;
#endif
#if VA
  if (d >= p.hd) { return vec4<f32>(0.0); }
#if b == 0
  return Q_4(at);
#elif b == 1
  return K_4(at);
#else
  return V_4(at);
#endif
#else
  var v = vec4<f32>(0.0);
  for (var i = 0u; i < 4u; i++) {
    if (d + i < p.hd) {
#if b == 0
      v[i] = Q_1(at + i);
#elif b == 1
      v[i] = K_1(at + i);
#else
      v[i] = V_1(at + i);
#endif
    }
  }
  return v;
#endif
}
#endfor

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let head = wg.y;
  let q0 = wg.x * 32u;
  let col0 = wg.z * ${VC}u;
  let r4 = t % 8u;
  let c4 = t / 8u;
#for i 0 4
#for j 0 NJ
  var o${i}_${j} = vec4<f32>(0.0);
#endfor
#endfor
  var top = vec4<f32>(-3.0e38);
  var sum = vec4<f32>(0.0);
  for (var k0 = 0u; k0 < p.m; k0 += 32u) {
#for i 0 4
    var s${i} = vec4<f32>(0.0);
#endfor
    for (var d0 = 0u; d0 < p.hd; d0 += 32u) {
      for (var e = t; e < 256u; e += 64u) {
        let row = e / 8u;
        let d = (e % 8u) * 4u;
        let q = q_quad(q0 + row, d0 + d, head);
        let k = k_quad(k0 + row, d0 + d, head);
        for (var j = 0u; j < 4u; j++) {
          Qs[(d + j) * 9u + row / 4u][row % 4u] = q[j];
          Ks[(d + j) * 9u + row / 4u][row % 4u] = k[j];
        }
      }
      workgroupBarrier();
      for (var d = 0u; d < 32u; d++) {
        let a = Qs[d * 9u + r4];
        let b = Ks[d * 9u + c4];
#for i 0 4
        s${i} = fma(vec4<f32>(a[${i}]), b, s${i});
#endfor
      }
      workgroupBarrier();
    }
    var peak: vec4<f32>;
#for i 0 4
#for e 0 4
    s${i}[${e}] = score(s${i}[${e}], q0 + r4 * 4u + ${i}u, k0 + c4 * 4u + ${e}u, head, 0u);
#endfor
    peak[${i}] = max(max(s${i}.x, s${i}.y), max(s${i}.z, s${i}.w));
#endfor
    red[c4 * 8u + r4] = peak;
    workgroupBarrier();
    var next = top;
    for (var c = 0u; c < 8u; c++) { next = max(next, red[c * 8u + r4]); }
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
#for e 0 4
    Ps[(c4 * 4u + ${e}u) * 9u + r4] = vec4<f32>(s0[${e}], s1[${e}], s2[${e}], s3[${e}]);
#endfor
#for j 0 NJ
    for (var e = t; e < 256u; e += 64u) { Ks[(e / 8u) * 9u + e % 8u] = v_quad(k0 + e / 8u, col0 + ${j*32}u + (e % 8u) * 4u, head); }
    workgroupBarrier();
    for (var k = 0u; k < 32u; k++) {
      let pr = Ps[k * 9u + r4];
      let v = Ks[k * 9u + c4];
#for i 0 4
      o${i}_${j} = fma(vec4<f32>(pr[${i}]), v, o${i}_${j});
#endfor
    }
    workgroupBarrier();
#endfor
  }
  red[c4 * 8u + r4] = sum;
  workgroupBarrier();
  var total = vec4<f32>(0.0);
  for (var c = 0u; c < 8u; c++) { total += red[c * 8u + r4]; }
#if LOG
  if (c4 == 0u && wg.z == 0u) {
    for (var i = 0u; i < 4u; i++) {
      let row = q0 + r4 * 4u + i;
      if (row < p.rows) { put_log(row, head, top[i], total[i]); }
    }
  }
#endif
#for i 0 4
#for j 0 NJ
  put(q0 + r4 * 4u + ${i}u, col0 + ${j*32}u + c4 * 4u, head, o${i}_${j} / total[${i}]);
#endfor
#endfor
}
fn put(row: u32, col: u32, head: u32, v: vec4<f32>) {
  if (row >= p.rows || col >= p.hd) { return; }
  let o = p.o_off + (row * p.heads + head) * p.hd + col;
#if VA
  O_set4(o, v);
#elif OT == 0
  for (var i = 0u; i < 4u; i++) { if (col + i < p.hd) { O_word(o + i, vec2<f32>(v[i])); } }
#else
  O_word(o, v.xy);
  if (col + 2u < p.hd) { O_word(o + 2u, v.zw); }
#endif
}
