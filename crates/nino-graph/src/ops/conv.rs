//! Convolution of images and of windows of frames.

use super::check::{Inferred, image, weight, wrong};
use super::map_all;
use super::{Epilogue, Facts, InPlace, OpDef, Operand, Part, Prologue, Rows, Scratch, Traffic};
use crate::{Graph, Kind, Node, Shape};
use std::ops::Range;

/// Convolution of `[b, h, w, cin]` or `[b, t, h, w, cin]`. Weights `[cout, kh, kw, cin]` or
/// `[cout, kt, kh, kw, cin]`. Time is never padded: a causal model puts its cached frames in front.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv {
    pub x: Node,
    pub w: Node,
    /// `[t, h, w]`
    pub stride: [usize; 3],
    /// Zeros around the image: top, bottom, left, right.
    pub pad: [usize; 4],
    /// `[h, w]`
    pub dilation: [usize; 2],
    /// The input is enlarged by this factor (nearest) in h and w before the window is taken; 1 =
    /// not.
    pub upsample: usize,
    pub pre: Option<Prologue>,
    pub epi: Epilogue,
}

impl Graph {
    /// Stride 1, the same padding on all sides.
    #[track_caller]
    pub fn conv2d(&mut self, x: Node, w: Node, bias: Option<Node>, pad: usize) -> Node {
        self.conv(x, w, bias, [1, 1], [pad; 4])
    }

    /// Any stride `[h, w]` and padding (top, bottom, left, right).
    #[track_caller]
    pub fn conv(
        &mut self,
        x: Node,
        w: Node,
        bias: Option<Node>,
        stride: [usize; 2],
        pad: [usize; 4],
    ) -> Node {
        let stride = [1, stride[0], stride[1]];
        self.push(Conv::plain(x, w, bias, stride, pad))
    }

    /// A window of frames `[b, t + kt − 1, h, w, c]`, cached ones first → `[b, t, h, w, cout]`.
    #[track_caller]
    pub fn causal_conv(
        &mut self,
        window: Node,
        w: Node,
        bias: Option<Node>,
        stride: [usize; 3],
        pad: [usize; 4],
    ) -> Node {
        self.push(Conv::plain(window, w, bias, stride, pad))
    }
}

impl Conv {
    /// A convolution with no fused parts.
    pub fn plain(
        x: Node,
        w: Node,
        bias: Option<Node>,
        stride: [usize; 3],
        pad: [usize; 4],
    ) -> Conv {
        Conv {
            x,
            w,
            stride,
            pad,
            dilation: [1, 1],
            upsample: 1,
            pre: None,
            epi: Epilogue::bias(bias),
        }
    }

    /// Windows of 3×3 with stride 1 over many channels have faster ways than a product.
    fn kind(&self, g: &Graph) -> Kind {
        // Fewer channels are convolved as a product.
        const MANY: usize = 32;
        let (x, w) = (g.dtype(self.x), g.dtype(self.w));
        let [.., kh, kw, cin] = *g.shape(self.w) else {
            return Kind::Other;
        };
        let square = (kh, kw) == (3, 3) && self.stride == [1; 3] && self.dilation == [1; 2];
        if square && cin >= MANY {
            Kind::Conv3x3 { x }
        } else {
            Kind::Linear { x, w }
        }
    }

    /// Rows `(b, t, h)` of the input that rows `(b, t, h)` of the result read. Both ends grow with
    /// the row of the result.
    fn input_rows(&self, g: &Graph, out: Shape, rows: &Range<usize>) -> Range<usize> {
        let (Some([_, t_in, h_in, ..]), Some([_, t_out, h_out, ..]), Some([_, kt, kh, ..])) = (
            g.shape(self.x).as_video(),
            out.as_video(),
            g.shape(self.w).as_video(),
        ) else {
            return 0..0;
        };
        let at = |row: usize, tap_t: usize, tap_h: usize| {
            let (bt, y) = (row / h_out, row % h_out);
            let (b, t) = (bt / t_out, bt % t_out);
            let y = y * self.stride[1] + tap_h * self.dilation[0];
            let y = y.saturating_sub(self.pad[0]) / self.upsample;
            (b * t_in + t * self.stride[0] + tap_t) * h_in + y.min(h_in - 1)
        };
        at(rows.start, 0, 0)..at(rows.end - 1, kt - 1, kh - 1) + 1
    }
}

impl OpDef for Conv {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        map_all(&mut [&mut self.x, &mut self.w], f);
        self.pre.iter_mut().for_each(|p| p.map_operands(f));
        self.epi.map_operands(f);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        let x = image(g, self.x)?;
        let w = g.shape(self.w);
        let Some([cout, kt, kh, kw, cin]) = w.as_video() else {
            wrong!("weights of shape {w}")
        };
        let Some([b, t, h, wd, c]) = x.as_video() else {
            wrong!("x of shape {x}")
        };
        if c != cin {
            wrong!("x is {x}, weights {w} take {cin} channels");
        }
        weight(g, self.w)?;
        if self.stride.contains(&0) || self.dilation.contains(&0) || self.upsample == 0 {
            wrong!(
                "stride {:?}, dilation {:?}, upsample {}",
                self.stride,
                self.dilation,
                self.upsample
            );
        }
        let size = |full: usize, k: usize, stride: usize| {
            (full >= k && k > 0).then(|| (full - k) / stride + 1)
        };
        let out = (
            size(t, kt, self.stride[0]),
            size(
                h * self.upsample + self.pad[0] + self.pad[1],
                (kh - 1) * self.dilation[0] + 1,
                self.stride[1],
            ),
            size(
                wd * self.upsample + self.pad[2] + self.pad[3],
                (kw - 1) * self.dilation[1] + 1,
                self.stride[2],
            ),
        );
        let (Some(t), Some(h), Some(wd)) = out else {
            wrong!(
                "window {w} is larger than the padded input {x}, padding {:?}",
                self.pad
            )
        };
        if let Some(pre) = &self.pre {
            pre.check(g, self.x)?;
        }
        let shape = if x.rank() == 4 {
            [b, h, wd, cout].into()
        } else {
            [b, t, h, wd, cout].into()
        };
        self.epi.check(g, shape, w[0])?;
        Ok((shape, g.dtype(self.x)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let shape = g.shape(out);
        let taps: usize = g.shape(self.w)[1..].iter().product();
        Facts {
            flops: 2.0 * shape.numel() as f64 * taps as f64,
            traffic: Traffic::EachOnce,
            rows: Rows::Result(shape.leading(2)),
            blocks: vec![],
            scratch: Scratch::Decoded {
                x: self.x,
                w: self.w,
                values: g.shape(self.w).numel(),
                rounds: false,
            },
            in_place: InPlace::OverResidual(self.epi.residual),
            kind: self.kind(g),
        }
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        if operand.index == 0 {
            Part::Pieces {
                count: operand.shape.leading(2),
                pieces: self.input_rows(operand.graph, operand.out, &operand.rows),
            }
        } else if self.epi.residual == Some(operand.node) {
            Part::SameRows
        } else {
            Part::All
        }
    }
}
