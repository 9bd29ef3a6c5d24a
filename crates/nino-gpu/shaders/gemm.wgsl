// O[m, n] = epilogue(sum_k A[m, k] * W[n, k]) with f32 math: runs on every device.
// A workgroup makes a BM x BN tile from K steps of BK; a lane holds UM x UN blocks of 4 x 4 sums,
// spread so that neighbouring lanes read neighbouring words of shared memory.
#define TX BM/(UM*4)
#define NT TX*(BN/(UN*4))
#define CH BK/4
#define RP NT/CH
#define NA BM/RP
#define NB BN/RP
#define LA BM/4+1
#define LB BN/4+1
#include gemm_bind
var<workgroup> As: array<vec4<f32>, ${BK*LA}>;
var<workgroup> Bs: array<vec4<f32>, ${BK*LB}>;

@compute @workgroup_size(${NT})
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let m0 = wg.y * ${BM}u;
  let n0 = wg.x * ${BN}u;
  let tm = t % ${TX}u;
  let tn = t / ${TX}u;
  let q = t % ${CH}u;
  let r = t / ${CH}u;
#for i 0 UM*4
#for j 0 UN
  var c${i}_${j} = vec4<f32>(0.0);
#endfor
#endfor
  a_begin(q * 4u, wg.z);
#for i 0 NA
  let ar${i} = a_row(m0 + r + ${i*RP}u, wg.z);
  var ao${i} = a_offset(ar${i}, wg.z);
  var av${i} = a_load4(ar${i}, ao${i}, q * 4u, wg.z);
#endfor
#for i 0 NB
  var bv${i} = w_load4(n0 + r + ${i*RP}u, q * 4u, wg.z);
#endfor
  var kk = q * 4u;
  let steps = (p.k + ${BK-1}u) / ${BK}u;
  for (var s = 1u; s <= steps; s++) {
#for j 0 4
#for i 0 NA
    As[(q * 4u + ${j}u) * ${LA}u + (r + ${i*RP}u) / 4u][(r + ${i*RP}u) % 4u] = av${i}[${j}];
#endfor
#for i 0 NB
    Bs[(q * 4u + ${j}u) * ${LB}u + (r + ${i*RP}u) / 4u][(r + ${i*RP}u) % 4u] = bv${i}[${j}];
#endfor
#endfor
    workgroupBarrier();
    if (s < steps) {
      kk += ${BK}u;
      if (a_advance(${BK}u)) {
#for i 0 NA
        ao${i} = a_offset(ar${i}, wg.z);
#endfor
      }
#for i 0 NA
      av${i} = a_load4(ar${i}, ao${i}, kk, wg.z);
#endfor
#for i 0 NB
      bv${i} = w_load4(n0 + r + ${i*RP}u, kk, wg.z);
#endfor
    }
    for (var k = 0u; k < ${BK}u; k++) {
#for i 0 UM
      let a${i} = As[k * ${LA}u + tm + ${i*TX}u];
#endfor
#for j 0 UN
      let b${j} = Bs[k * ${LB}u + tn + ${j*(BN/(UN*4))}u];
#endfor
#for i 0 UM
#for e 0 4
#for j 0 UN
      c${i*4+e}_${j} = fma(vec4<f32>(a${i}[${e}]), b${j}, c${i*4+e}_${j});
#endfor
#endfor
#endfor
    }
    workgroupBarrier();
  }
#for i 0 UM
#for e 0 4
#for j 0 UN
  store4(m0 + (tm + ${i*TX}u) * 4u + ${e}u, n0 + (tn + ${j*(BN/(UN*4))}u) * 4u, wg.z, c${i*4+e}_${j});
#endfor
#endfor
#endfor
}
