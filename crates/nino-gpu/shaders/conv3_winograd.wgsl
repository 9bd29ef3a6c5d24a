// 3x3 convolution, stride 1, by Winograd's F(2x2, 3x3) (Lavin and Gray 2016) with f32 math: four
// outputs of a channel from 16 products instead of 36. Over KT frames, from an image's own on,
// where it is of clips. A workgroup makes 32 squares of 2 x 2 pixels, PX of them beside each other,
// for 32 output channels. Of eight input channels at a time, its first half transforms the
// squares' 4 x 4 pixels and its second half the filters; then lanes t/16 multiply the matrices
// number t/16 of both, 8 x 8 sums each. Wants input channels in eights, and both operands of one
// width of storage.
#define PY 32/PX
#include gemm_bind
// Eight channels of 16 matrices of 32 squares, then of 32 filters. The halves of a matrix's row
// change places by the parity of matrix and channel pair, so that lanes meet in few banks.
var<workgroup> Sh: array<vec4<f32>, 2048>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) t: u32) {
  let n0 = wg.x * 32u;
  let pair = t % 4u;
  let who = t / 4u % 32u; // square or output channel
#include winograd_square
  let of_input = t < 128u;
  let put0 = select(1024u, 0u, of_input) + pair * 256u + ((who / 4u) ^ ((pair & 1u) * 4u));
  let put1 = put0 ^ 4u;
  let lane4 = who % 4u;
#for i 0 4
#for j 0 4
  let in${i}_${j} = top + ${i} >= 0 && top + ${i} < i32(p.h) && left + ${j} >= 0 && left + ${j} < i32(p.w);
#endfor
#endfor
  // The last channels again for those past the end: what they give is not stored.
  let filter_row = p.w_off + min(n0 + who, p.n - 1u) * p.k;
  var read_at = select(filter_row, p.x_off + source * frame_size, of_input) + pair * 2u;
#for i 0 16
  var r${i}: X_two;
#endfor
#for i 0 8
#for j 0 2
  var c${i}_${j} = vec4<f32>(0.0);
#endfor
#endfor
  let xi = t / 16u;
  let tm = t % 4u;
  let tn = t / 4u % 4u;
  let a0 = xi * 8u + (tm ^ ((xi & 1u) * 4u));
  let a1 = a0 ^ 4u;
  let b0 = 1024u + xi * 8u + (tn ^ ((xi & 1u) * 4u));
  let b1 = b0 ^ 4u;
  var ch = 0u;
  if (of_input) {
#for i 0 4
#for j 0 4
    r${i*4+j} = X_two_at(read_at + yo${i} + xo${j});
#endfor
#endfor
  } else {
#for i 0 9
    r${i} = W_two_at(read_at + ${i}u * p.c);
#endfor
  }
  let stages = p.c / 8u * ${KT}u;
  for (var s = 1u; s <= stages; s++) {
    // One channel after the other: fewer registers.
    if (of_input) {
#for z 0 2
#for j 0 4
#for i 0 4
#if PRO
      let d${z}_${i}_${j} = select(0.0, pro1(X_two_of(r${i*4+j})[${z}], image / p.rows_per, ch + pair * 2u + ${z}u), in${i}_${j});
#else
      let d${z}_${i}_${j} = select(0.0, X_two_of(r${i*4+j})[${z}], in${i}_${j});
#endif
#endfor
      let e${z}_0_${j} = d${z}_0_${j} - d${z}_2_${j};
      let e${z}_1_${j} = d${z}_1_${j} + d${z}_2_${j};
      let e${z}_2_${j} = d${z}_2_${j} - d${z}_1_${j};
      let e${z}_3_${j} = d${z}_1_${j} - d${z}_3_${j};
#endfor
#for i 0 4
      Sh[put0 + ${z*128+i*32}u][lane4] = e${z}_${i}_0 - e${z}_${i}_2;
      Sh[put1 + ${z*128+i*32+8}u][lane4] = e${z}_${i}_1 + e${z}_${i}_2;
      Sh[put0 + ${z*128+i*32+16}u][lane4] = e${z}_${i}_2 - e${z}_${i}_1;
      Sh[put1 + ${z*128+i*32+24}u][lane4] = e${z}_${i}_1 - e${z}_${i}_3;
#endfor
#endfor
    } else {
#for z 0 2
#for j 0 3
      let g${z}_0_${j} = W_two_of(r${j})[${z}];
      let g${z}_3_${j} = W_two_of(r${6+j})[${z}];
      let h${z}_${j} = 0.5 * W_two_of(r${3+j})[${z}];
      let g${z}_1_${j} = 0.5 * (g${z}_0_${j} + g${z}_3_${j}) + h${z}_${j};
      let g${z}_2_${j} = 0.5 * (g${z}_0_${j} + g${z}_3_${j}) - h${z}_${j};
#endfor
#for i 0 4
      let l${z}_${i} = 0.5 * (g${z}_${i}_0 + g${z}_${i}_2);
      Sh[put0 + ${z*128+i*32}u][lane4] = g${z}_${i}_0;
      Sh[put1 + ${z*128+i*32+8}u][lane4] = l${z}_${i} + 0.5 * g${z}_${i}_1;
      Sh[put0 + ${z*128+i*32+16}u][lane4] = l${z}_${i} - 0.5 * g${z}_${i}_1;
      Sh[put1 + ${z*128+i*32+24}u][lane4] = g${z}_${i}_2;
#endfor
#endfor
    }
    workgroupBarrier();
    if (s < stages) {
      ch += 8u;
      read_at += 8u;
#if KT > 1
      if (ch == p.c) {
        ch = 0u;
        read_at += select(8u * p.c, frame_size - p.c, of_input);
      }
#endif
      if (of_input) {
#for i 0 4
#for j 0 4
        r${i*4+j} = X_two_at(read_at + yo${i} + xo${j});
#endfor
#endfor
      } else {
#for i 0 9
        r${i} = W_two_at(read_at + ${i}u * p.c);
#endfor
      }
    }
#for k 0 8
#for i 0 2
    let u${k}_${i} = Sh[a${(k/2+i)%2} + ${k*128}u];
    let v${k}_${i} = Sh[b${(k/2+i)%2} + ${k*128}u];
#endfor
#for i 0 2
#for e 0 4
#for j 0 2
    c${i*4+e}_${j} = fma(vec4<f32>(u${k}_${i}[${e}]), v${k}_${j}, c${i*4+e}_${j});
#endfor
#endfor
#endfor
#endfor
    workgroupBarrier();
  }
  // Half of the squares at a time; half of the lanes make the upper pixels of a square.
  let nq = t % 8u;
  let lower = t / 128u;
  let sign = select(1.0, -1.0, lower == 1u);
  let at = t / 8u % 16u * 8u + nq;
#for h 0 2
#for e 0 4
#for j 0 2
  Sh[xi * 128u + (tm * 4u + ${e}u) * 8u + tn + ${j*4}u] = c${h*4+e}_${j};
#endfor
#endfor
  workgroupBarrier();
  {
    let square = ${h*16}u + t / 8u % 16u;
    let y = y0 + square / ${PX}u * 2u + lower;
    let x = x0 + square % ${PX}u * 2u;
    let n = n0 + nq * 4u;
#for j 0 4
    let m${j} = Sh[at + ${(4+j)*128}u] + sign * (Sh[at + ${(8+j)*128}u] + Sh[at + lower * ${12*128}u + ${j*128}u]);
#endfor
    if (y >= p.first && y < p.m && n < p.n) {
      let row = (image * p.oh + y) * p.ow + x;
      if (x < p.ow) { put4(row, n, 0u, m0 + m1 + m2); }
      if (x + 1u < p.ow) { put4(row + 1u, n, 0u, m1 - m2 - m3); }
    }
  }
  workgroupBarrier();
#endfor
}
