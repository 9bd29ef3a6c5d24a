//! Convolutions against plain loops in f64.

use nino_dtype::DType;
use nino_graph::Act;

use super::{Conv, Geometry, Method, Rounding, fixed};
use crate::gemm::epilogue::Epilogue;
use crate::gemm::int16;
use crate::gemm::prologue::{Prologue, Source};
use crate::gemm::weights::{Packed, WeightUse};
use crate::memory::{Buffer, View};
use crate::simd::Level;
use crate::testing::{Close, Crew, Random, levels};

#[derive(Clone, Copy, Debug)]
struct Case {
    b: usize,
    /// `[t, h, w]`
    input: [usize; 3],
    cin: usize,
    cout: usize,
    window: [usize; 3],
    stride: [usize; 3],
    /// top, bottom, left, right
    pad: [usize; 4],
    dilation: [usize; 2],
    upsample: usize,
    norm: bool,
}

const PLAIN: Case = Case {
    b: 1,
    input: [1, 7, 9],
    cin: 5,
    cout: 6,
    window: [1, 3, 3],
    stride: [1; 3],
    pad: [1; 4],
    dilation: [1; 2],
    upsample: 1,
    norm: false,
};

impl Case {
    fn geometry(&self) -> Geometry {
        let [t, h, w] = self.input;
        let [kt, kh, kw] = self.window;
        let [top, bottom, left, right] = self.pad;
        let size = |full: usize, k: usize, dilation: usize, stride: usize| {
            (full - (k - 1) * dilation - 1) / stride + 1
        };
        let up = self.upsample;
        Geometry {
            input: self.input,
            output: [
                size(t, kt, 1, self.stride[0]),
                size(h * up + top + bottom, kh, self.dilation[0], self.stride[1]),
                size(w * up + left + right, kw, self.dilation[1], self.stride[2]),
            ],
            window: self.window,
            stride: self.stride,
            pad_top: top,
            pad_left: left,
            dilation: self.dilation,
            upsample: up,
        }
    }
}

struct Data {
    x: Vec<f32>,
    w: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
    stats: Vec<f32>,
    gain: Vec<f32>,
    shift: Vec<f32>,
}

fn expected(case: &Case, d: &Data) -> Vec<f64> {
    let g = case.geometry();
    let ([t, h, w], [to, ho, wo], [kt, kh, kw]) = (g.input, g.output, g.window);
    let read = |b: usize, t_in: usize, y: isize, x: isize, c: usize| -> f64 {
        let up = g.upsample as isize;
        if y < 0 || x < 0 || y >= h as isize * up || x >= w as isize * up {
            return 0.0;
        }
        let pixel = ((b * t + t_in) * h + (y / up) as usize) * w + (x / up) as usize;
        let v = f64::from(d.x[pixel * case.cin + c]);
        if !case.norm {
            return v;
        }
        let (mean, rstd) = (d.stats[b * 2], d.stats[b * 2 + 1]);
        let v =
            (v - f64::from(mean)) * f64::from(rstd) * f64::from(d.gain[c]) + f64::from(d.shift[c]);
        v / (1.0 + (-v).exp())
    };
    let mut out = Vec::new();
    for i in 0..case.b * to * ho * wo * case.cout {
        let (p, o) = (i / case.cout, i % case.cout);
        let (x, y) = (p % wo, p / wo % ho);
        let (b, t_out) = (p / wo / ho / to, p / wo / ho % to);
        let mut sum = f64::from(d.bias[o]) + f64::from(d.residual[i]);
        for (dt, dy, dx) in (0..kt * kh * kw).map(|k| (k / kw / kh, k / kw % kh, k % kw)) {
            let iy = (y * g.stride[1] + dy * g.dilation[0]) as isize - g.pad_top as isize;
            let ix = (x * g.stride[2] + dx * g.dilation[1]) as isize - g.pad_left as isize;
            for c in 0..case.cin {
                let weight = d.w[(((o * kt + dt) * kh + dy) * kw + dx) * case.cin + c];
                sum += read(b, t_out * g.stride[0] + dt, iy, ix, c) * f64::from(weight);
            }
        }
        out.push(sum);
    }
    out
}

fn check(level: Level, case: Case, dtype: DType, method: Method) {
    let g = case.geometry();
    let exact = Rounding::of(level, DType::F32);
    let of_case = match g.method(exact, case.cin) {
        Method::Winograd if method == Method::Fixed => Method::Fixed,
        other => other,
    };
    assert_eq!(of_case, method, "{case:?}");
    let [to, ho, wo] = g.output;
    let taps: usize = g.window.iter().product();
    let mut r = Random::new(case.cin * 7 + wo);
    let mut d = Data {
        x: r.values(case.b * g.input.iter().product::<usize>() * case.cin),
        w: r.values(case.cout * taps * case.cin),
        bias: r.values(case.cout),
        residual: r.values(case.b * to * ho * wo * case.cout),
        stats: r.values(case.b * 2),
        gain: r.values(case.cin),
        shift: r.values(case.cin),
    };
    let mut stored = Buffer::new(dtype.bytes_for(d.w.len()).unwrap(), "test").unwrap();
    nino_dtype::encode(dtype, &d.w, stored.as_mut_slice()).unwrap();
    nino_dtype::decode(dtype, stored.as_slice(), &mut d.w).unwrap();
    let wanted = WeightUse {
        shape: [case.cout, taps, case.cin],
        brain: false,
    };
    let weights = Packed::new(level, dtype, wanted, stored, "test").unwrap();
    let want = expected(&case, &d);
    let pre = Prologue {
        stats: d.stats.as_ptr(),
        groups: Some(1),
        weight: d.gain.as_ptr(),
        bias: d.shift.as_ptr(),
        act: Some(Act::Silu),
        channels: case.cin,
    };
    let n_rows = case.b * to * ho;
    let run = |cuts: &[usize], every: Option<&[f32]>| {
        // The residual is read and written in place, as plans allow.
        let (mut x, mut out) = (d.x.clone(), d.residual.clone());
        let start = out.as_mut_ptr();
        let view = View {
            ptr: start.cast(),
            dtype: DType::F32,
        };
        let conv = Conv {
            geometry: g,
            source: Source {
                x: View::of(&mut x),
                pre: case.norm.then_some(pre),
            },
            readable: 0..usize::MAX,
            weights: &weights,
            epilogue: Epilogue {
                scale: std::ptr::null(),
                bias: d.bias.as_ptr(),
                gate: None,
                act: None,
                residual: Some(view),
                post: None,
                out: view,
                ld: case.cout,
            },
        };
        let scratch = match method {
            Method::Fixed => fixed::scratch_bytes(&g, &weights),
            _ => super::scratch_bytes(level, DType::F32, &g, &weights),
        };
        let crew = Crew::new(2, scratch);
        for pair in cuts.windows(2) {
            let (team, rows) = (crew.team(level), pair[0]..pair[1]);
            // SAFETY: all views cover the shapes given.
            unsafe {
                match (method, every) {
                    (Method::Fixed, None) => fixed::run(&team, &conv, rows),
                    (Method::Fixed, Some(want)) => fixed::run_every_way(&team, &conv, rows, || {
                        let got = std::slice::from_raw_parts_mut(start, want.len());
                        assert_eq!(got, want, "{case:?}");
                        got.copy_from_slice(&d.residual);
                    }),
                    _ => super::run(&team, &conv, rows),
                }
            }
        }
        out
    };
    let whole = run(&[0, n_rows], None);
    let close = match method {
        Method::Winograd => Close::Transformed,
        Method::Fixed => Close::Fixed,
        Method::Direct | Method::Pointwise => Close::F32,
    };
    for (i, (&got, &want)) in whole.iter().zip(&want).enumerate() {
        close.check(
            got,
            want,
            taps * case.cin,
            &format!("{level} {dtype} {case:?} [{i}]"),
        );
    }
    if method == Method::Fixed {
        run(&[0, n_rows], Some(&whole));
    }
    if n_rows > 3 {
        assert_eq!(
            whole,
            run(&[0, 1, n_rows / 2, n_rows - 1, n_rows], None),
            "cut: {level} {case:?}"
        );
    }
}

#[test]
fn direct_matches_f64() {
    let cases = [
        PLAIN,
        Case {
            input: [1, 1, 1],
            cin: 1,
            cout: 1,
            ..PLAIN
        },
        Case {
            b: 2,
            input: [1, 5, 70],
            cin: 130,
            cout: 35,
            stride: [1, 2, 2],
            pad: [0, 1, 0, 1],
            norm: true,
            ..PLAIN
        },
        Case {
            input: [1, 19, 6],
            window: [1, 5, 5],
            pad: [2; 4],
            norm: true,
            ..PLAIN
        },
        Case {
            input: [1, 11, 13],
            dilation: [2, 3],
            pad: [2, 2, 3, 3],
            ..PLAIN
        },
        Case {
            input: [1, 5, 6],
            upsample: 2,
            norm: true,
            ..PLAIN
        },
        Case {
            b: 2,
            input: [4, 5, 6],
            window: [3, 3, 3],
            cin: 7,
            stride: [1, 2, 2],
            ..PLAIN
        },
        Case {
            input: [5, 3, 4],
            window: [3, 1, 1],
            pad: [0; 4],
            stride: [2, 1, 1],
            ..PLAIN
        },
        Case {
            input: [1, 9, 9],
            window: [1, 1, 1],
            pad: [0; 4],
            stride: [1, 3, 3],
            cin: 129,
            ..PLAIN
        },
        Case {
            input: [1, 2, 300],
            window: [1, 1, 7],
            pad: [0, 0, 3, 3],
            ..PLAIN
        },
    ];
    for level in levels() {
        for case in cases {
            check(level, case, DType::F32, Method::Direct);
        }
        check(level, PLAIN, DType::F16, Method::Direct);
    }
}

const TILED: Case = Case {
    cin: 32,
    cout: 16,
    input: [1, 8, 8],
    ..PLAIN
};

/// Cases for Winograd's method.
fn tiled_cases() -> impl Iterator<Item = Case> {
    [
        TILED,
        Case {
            b: 2,
            cin: 40,
            cout: 37,
            input: [1, 9, 11],
            norm: true,
            ..TILED
        },
        Case {
            cin: 150,
            cout: 33,
            input: [1, 4, 35],
            ..TILED
        },
        Case {
            input: [1, 7, 6],
            upsample: 2,
            norm: true,
            ..TILED
        },
        Case {
            b: 2,
            input: [4, 5, 6],
            window: [3, 3, 3],
            ..TILED
        },
        Case {
            input: [1, 10, 10],
            pad: [0, 2, 1, 0],
            ..TILED
        },
        Case {
            b: 2,
            input: [1, 45, 37],
            cout: 130,
            ..TILED
        },
    ]
    .into_iter()
}

#[test]
fn winograd_matches_f64() {
    for level in levels() {
        for case in tiled_cases() {
            check(level, case, DType::F32, Method::Winograd);
        }
        for dtype in [DType::BF16, DType::Q8_0] {
            check(level, Case { cin: 160, ..TILED }, dtype, Method::Winograd);
        }
    }
}

#[test]
fn fixed_matches_f64() {
    for level in levels().into_iter().filter(|&l| int16::exists(l)) {
        // An odd number of channels, and sums or tiles that are kept over several blocks of them.
        let more = [
            Case { cin: 129, ..TILED },
            Case {
                cin: 300,
                cout: 70,
                input: [1, 9, 37],
                ..TILED
            },
        ];
        for case in tiled_cases().chain(more) {
            check(level, case, DType::F32, Method::Fixed);
        }
        for dtype in [DType::F16, DType::BF16, DType::Q8_0] {
            check(level, Case { cin: 160, ..TILED }, dtype, Method::Fixed);
        }
    }
}

/// Scratch is not in the plan but in what a thread is said to take.
#[test]
fn fixed_needs_as_much_scratch_as_f32() {
    for (cin, cout, h) in [
        (32, 64, 64),
        (320, 320, 64),
        (512, 512, 128),
        (2560, 1280, 16),
    ] {
        let case = Case {
            cin,
            cout,
            input: [1, h, h],
            ..PLAIN
        };
        let wanted = WeightUse {
            shape: [cout, 9, cin],
            brain: true,
        };
        let level = Level::best();
        for dtype in [DType::F16, DType::Q4_K] {
            let weights = Packed::outline(level, dtype, wanted, "test").unwrap();
            let fixed = fixed::scratch_bytes(&case.geometry(), &weights);
            assert!(
                fixed <= (34 << 20) / 10,
                "{cin} {cout} {h} {dtype}: {fixed}"
            );
        }
    }
}

#[test]
fn pointwise_matches_f64() {
    for level in levels() {
        let case = Case {
            b: 2,
            window: [1; 3],
            pad: [0; 4],
            norm: true,
            ..PLAIN
        };
        check(level, case, DType::F32, Method::Pointwise);
        check(
            level,
            Case { cin: 64, ..case },
            DType::F32,
            Method::Pointwise,
        );
    }
}
