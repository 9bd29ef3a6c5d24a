// The same product as gemm.wgsl of bytes: X is rounded by round8.wgsl, with a factor S for each 32
// values of a row, and W is Q8_0. A step of K is one such block, whose sums are integers; packed
// dot products make them four values at a time. A lane holds UM x UN blocks of 4 x 4 sums, and
// brings half of a block of a row at a time.
#define TX BM/(UM*4)
#define TN BN/(UN*4)
#define NT TX*TN
#define RP NT/2
#define NA BM/RP
#define NB BN/RP
#define NS (BM+BN)/NT
#define LA BM/4+1
#define LB BN/4+1
#include gemm_bind
var<workgroup> As: array<vec4<u32>, ${8*LA}>;
var<workgroup> Bs: array<vec4<u32>, ${8*LB}>;
var<workgroup> factors: array<vec4<f32>, ${BM/4+BN/4}>;

fn w_word(i: u32) -> u32 { return W[i >> 2u][i & 3u]; }
// Sixteen values of a row from k on.
fn x_load(m: u32, k: u32) -> vec4<u32> {
  if (m >= p.m) { return vec4<u32>(0u); }
  return X[(p.x_off + m * p.k + k) >> 4u];
}
fn w_load(n: u32, k: u32) -> vec4<u32> {
  if (n >= p.n) { return vec4<u32>(0u); }
  // Blocks begin at any two-byte boundary; a fifth word is needed, and there, only at an odd one.
  let at = ((p.w_off + n * p.k + k) >> 5u) * 34u + 2u + (k & 16u);
  let i = at >> 2u;
  let odd = (at & 2u) != 0u;
  let a = vec4<u32>(w_word(i), w_word(i + 1u), w_word(i + 2u), w_word(i + 3u));
  let b = vec4<u32>(a.yzw, w_word(select(i, i + 4u, odd)));
  return select(a, (a >> vec4<u32>(16u)) | (b << vec4<u32>(16u)), odd);
}
// Factors of the tile's rows, then of its columns.
fn factor(i: u32, m0: u32, n0: u32, block: u32) -> f32 {
  let blocks = p.k >> 5u;
  if (i < ${BM}u) { return S_1(p.s_off + min(m0 + i, p.m - 1u) * blocks + block); }
  let n = min(n0 + i - ${BM}u, p.n - 1u);
  return wb_f16(((p.w_off >> 5u) + n * blocks + block) * 34u);
}

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let m0 = wg.y * ${BM}u;
  let n0 = wg.x * ${BN}u;
  let tm = t % ${TX}u;
  let tn = t / ${TX}u;
  let part = t % 2u;
  let r = t / 2u;
#for i 0 UM*4
#for j 0 UN
  var c${i}_${j} = vec4<f32>(0.0);
#endfor
#endfor
#for i 0 NA
  var av${i} = x_load(m0 + r + ${i*RP}u, part * 16u);
#endfor
#for i 0 NB
  var bv${i} = w_load(n0 + r + ${i*RP}u, part * 16u);
#endfor
#for i 0 NS
  var fv${i} = factor(t + ${i*NT}u, m0, n0, 0u);
#endfor
  let steps = p.k >> 5u;
  for (var s = 1u; s <= steps; s++) {
#for j 0 4
#for i 0 NA
    As[(part * 4u + ${j}u) * ${LA}u + (r + ${i*RP}u) / 4u][(r + ${i*RP}u) % 4u] = av${i}[${j}];
#endfor
#for i 0 NB
    Bs[(part * 4u + ${j}u) * ${LB}u + (r + ${i*RP}u) / 4u][(r + ${i*RP}u) % 4u] = bv${i}[${j}];
#endfor
#endfor
#for i 0 NS
    factors[(t + ${i*NT}u) / 4u][(t + ${i*NT}u) % 4u] = fv${i};
#endfor
    workgroupBarrier();
    if (s < steps) {
#for i 0 NA
      av${i} = x_load(m0 + r + ${i*RP}u, s * 32u + part * 16u);
#endfor
#for i 0 NB
      bv${i} = w_load(n0 + r + ${i*RP}u, s * 32u + part * 16u);
#endfor
#for i 0 NS
      fv${i} = factor(t + ${i*NT}u, m0, n0, s);
#endfor
    }
#for i 0 UM*4
#for j 0 UN
    var q${i}_${j} = vec4<i32>(0);
#endfor
#endfor
    for (var k = 0u; k < 8u; k++) {
#for i 0 UM
      let a${i} = As[k * ${LA}u + tm + ${i*TX}u];
#endfor
#for j 0 UN
      let b${j} = Bs[k * ${LB}u + tn + ${j*TN}u];
#endfor
#for i 0 UM
#for e 0 4
#for j 0 UN
      q${i*4+e}_${j} += vec4<i32>(dot4I8Packed(a${i}[${e}], b${j}.x), dot4I8Packed(a${i}[${e}], b${j}.y), dot4I8Packed(a${i}[${e}], b${j}.z), dot4I8Packed(a${i}[${e}], b${j}.w));
#endfor
#endfor
#endfor
    }
#for i 0 UM
    let fa${i} = factors[tm + ${i*TX}u];
#endfor
#for j 0 UN
    let fb${j} = factors[${BM/4}u + tn + ${j*TN}u];
#endfor
#for i 0 UM
#for e 0 4
#for j 0 UN
    c${i*4+e}_${j} = fma(vec4<f32>(q${i*4+e}_${j}), fa${i}[${e}] * fb${j}, c${i*4+e}_${j});
#endfor
#endfor
#endfor
    workgroupBarrier();
  }
#for i 0 UM
#for e 0 4
#for j 0 UN
  store4(m0 + (tm + ${i*TX}u) * 4u + ${e}u, n0 + (tn + ${j*TN}u) * 4u, 0u, c${i*4+e}_${j});
#endfor
#endfor
#endfor
}
