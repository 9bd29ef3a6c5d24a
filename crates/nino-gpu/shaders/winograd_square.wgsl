// Part of the main functions of Winograd's kernels: where the 4 x 4 pixels of square `who` are.
// They begin at row `top` and column `left`, and lie at yo + xo from the start of a frame of X.
  let tiles_x = (p.ow + ${2*PX-1}u) / ${2*PX}u;
  let x0 = (wg.y % tiles_x) * ${2*PX}u;
  // From p.first on, the first row of the image to make; but squares begin at even rows, so that
  // a picture made in parts is the same.
  let y0 = p.first / 2u * 2u + (wg.y / tiles_x) * ${2*PY}u;
  let image = p.ot + wg.z;
#if KT > 1
  // p.t frames make p.rows_per.
  let source = image / p.rows_per * (p.t - p.rows_per) + image;
#else
  let source = image;
#endif
  let row_size = (p.w / ${UP}u) * p.c;
  let frame_size = (p.h / ${UP}u) * row_size;
  let top = i32(y0 + who / ${PX}u * 2u) - p.ph;
  let left = i32(x0 + who % ${PX}u * 2u) - p.pw;
  // Rows of the input that what is stored depends on; others need not be bound.
  let lowest = max(i32(p.first) - p.ph, 0);
  let highest = min(i32(p.m) + 1 - p.ph, i32(p.h) - 1);
#for i 0 4
  let yo${i} = u32(clamp(top + ${i}, lowest, highest)) / ${UP}u * row_size;
  let xo${i} = u32(clamp(left + ${i}, 0, i32(p.w) - 1)) / ${UP}u * p.c;
#endfor
