// Bilinear upsampling with half-pixel centers (BILINEAR), or the mean of size x size windows, of
// [.., h, w, d].
struct P { lo: u32, len: u32, row: u32, d: u32, o_off: u32, x_off: u32, h: u32, w: u32, oh: u32, ow: u32, fh: u32, fw: u32 }
#params
#include io
#bind O OT
#bind X XT
fn at(n: u32, y: u32, x: u32, c: u32) -> u32 { return p.x_off + ((n * p.h + y) * p.w + x) * p.d + c; }
#for v 0 2
#if v == 0
fn value(i: u32) -> f32 {
#else
fn value4(i: u32) -> vec4<f32> {
#endif
  let r = row_of(i);
  let c = col_of(i);
  let ox = r % p.ow;
  let oy = r / p.ow % p.oh;
  let n = r / p.ow / p.oh;
#if BILINEAR
  let sy = max((f32(oy) + 0.5) / f32(p.fh) - 0.5, 0.0);
  let sx = max((f32(ox) + 0.5) / f32(p.fw) - 0.5, 0.0);
  let y0 = min(u32(sy), p.h - 1u);
  let x0 = min(u32(sx), p.w - 1u);
  let y1 = min(y0 + 1u, p.h - 1u);
  let x1 = min(x0 + 1u, p.w - 1u);
  let fy = sy - f32(y0);
  let fx = sx - f32(x0);
  let a = X_${1+3*v}(at(n, y0, x0, c)) * (1.0 - fx) + X_${1+3*v}(at(n, y0, x1, c)) * fx;
  let b = X_${1+3*v}(at(n, y1, x0, c)) * (1.0 - fx) + X_${1+3*v}(at(n, y1, x1, c)) * fx;
  return a * (1.0 - fy) + b * fy;
#else
  var sum = X_${1+3*v}(at(n, oy * p.fh, ox * p.fw, c));
  for (var k = 1u; k < p.fh * p.fw; k++) { sum += X_${1+3*v}(at(n, oy * p.fh + k / p.fw, ox * p.fw + k % p.fw, c)); }
  return sum / f32(p.fh * p.fw);
#endif
}
#endfor
#include each
