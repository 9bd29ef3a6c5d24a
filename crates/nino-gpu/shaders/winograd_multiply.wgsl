// What `conv3_winograd_coop` does with a stage that lies in shared memory: a subgroup multiplies
// its XW pairs of matrices, each of 2 x 2 of TS x TS, into c.
#for x 0 XW
let m${x} = (sg * ${XW}u + ${x}u) * ${P*LD}u;
#for j 0 2
let b${x}_${j} = coopLoad<coop_mat${TS}x${TS}<f16, B>>(&Us[m${x} + ${j*TS*LD}u], ${LD}u);
#endfor
#for i 0 2
let a${x}_${i} = coopLoadT<coop_mat${TS}x${TS}<f16, A>>(&Vs[m${x} + ${i*TS*LD}u], ${LD}u);
#for j 0 2
c${x}_${i}_${j} = coopMultiplyAdd(a${x}_${i}, b${x}_${j}, c${x}_${i}_${j});
#endfor
#endfor
#endfor
