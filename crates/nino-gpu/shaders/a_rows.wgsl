// A = rows of X, [m, k], one matrix per z.
const NONE = 0xffffffffu;
fn a_begin(k: u32, z: u32) {}
fn a_advance(by: u32) -> bool { return false; }
#if COOP
// Rows and columns past the end read the last ones instead. What becomes of the rows is not stored;
// the columns are made zero when used.
fn a_row(m: u32, z: u32) -> u32 { return min(m, p.m - 1u); }
fn a_offset(row: u32, z: u32) -> u32 { return p.x_off + z * p.x_batch + row * p.k; }
fn a_load(off: u32, k: u32) -> mat2x4<f16> {
  return X[(off + min(k, p.k - 8u)) >> 3u];
}
fn a_ready(v: mat2x4<f16>, row: u32, off: u32, k: u32) -> mat2x4<f16> {
#if KE
  if (k >= p.k) { return mat2x4<f16>(); }
#endif
#if PRO
  return pro8(v, (p.first + row) / p.rows_per, k);
#else
  return v;
#endif
}
#else
fn a_row(m: u32, z: u32) -> u32 { return select(NONE, m, m < p.m); }
fn a_offset(row: u32, z: u32) -> u32 { return select(p.x_off + z * p.x_batch + row * p.k, NONE, row == NONE); }
fn a_load4(row: u32, off: u32, k: u32, z: u32) -> vec4<f32> {
  if (off == NONE) { return vec4<f32>(0.0); }
#if VA
  if (k >= p.k) { return vec4<f32>(0.0); }
  var v = X_4(off + k);
#if PRO
  v = pro4(v, (p.first + row) / p.rows_per, k);
#endif
#else
  var v = vec4<f32>(0.0);
  for (var i = 0u; i < 4u; i++) {
    if (k + i < p.k) {
      v[i] = X_1(off + k + i);
#if PRO
      v[i] = pro1(v[i], (p.first + row) / p.rows_per, k + i);
#endif
    }
  }
#endif
  return v;
}
#endif
