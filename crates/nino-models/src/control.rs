//! `ControlNet`s of every family: networks that see a picture and steer a diffusion model by what
//! they add to its values. They are recorded into the diffusion model's graph, under names that
//! begin with `control.` and their number.

use crate::denoiser::Denoiser;
use crate::{ConvShape, Find, Params, anima, flux, qwen_image, t2i_adapter, unet, z_image};
use nino_graph::{Graph, Node};

/// A `ControlNet` with the sizes its tensors tell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ControlNet {
    Unet(unet::ControlConfig),
    Flux(flux::ControlConfig),
    ZImage(z_image::ControlConfig),
    QwenImage(qwen_image::ControlConfig),
    QwenBlocks(qwen_image::BlockwiseConfig),
    Anima(anima::ControlConfig),
    Adapter(t2i_adapter::Config),
}

/// A `ControlNet` of a graph, and the kind of picture that a union model is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controlled {
    pub net: ControlNet,
    pub mode: Option<usize>,
}

/// What a `ControlNet` sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintKind {
    /// The picture, eight times as wide and high as the latent, from 0 to 1 or, `signed`, from -1.
    Pixels { channels: usize, signed: bool },
    /// The encoded picture in the model's units, of so many channels. Where it is `masked`, the
    /// last one says what stays of a picture that is painted over. Where it is `smooth`, the
    /// picture is resized by the area of its pixels, and seen under the mask, too.
    Latent {
        channels: usize,
        masked: bool,
        smooth: bool,
    },
    /// The same in squares of four, so that its sides are even. Where it is `painted`, a mask of
    /// what is to be painted and the encoded picture of what stays follow.
    Squares { channels: usize, painted: bool },
    /// The picture from 0 to 1 in squares of so many pixels, so that its sides are multiples; one
    /// channel is the mean of three.
    Blocks { channels: usize, side: usize },
    /// The picture from -1 to 1, resized smoothly, in squares of so many pixels. Where it is
    /// `masked`, a fourth channel has 1 where to paint and -1 elsewhere; where it is `covered`, the
    /// picture is 0 there.
    Smooth {
        side: usize,
        masked: bool,
        covered: bool,
    },
}

impl HintKind {
    /// Rows, columns and channels beside a latent of `[h, w]`.
    pub fn size(self, [h, w]: [usize; 2]) -> [usize; 3] {
        match self {
            HintKind::Pixels { channels, .. } => [h * HINT_SCALE, w * HINT_SCALE, channels],
            HintKind::Latent { channels, .. } => [h, w, channels],
            HintKind::Blocks { channels, side } => {
                let [h, w] = [h, w].map(|n| (n * HINT_SCALE).next_multiple_of(side));
                [h, w, channels]
            }
            HintKind::Smooth { side, masked, .. } => {
                let [h, w] = [h, w].map(|n| (n * HINT_SCALE).next_multiple_of(side));
                [h, w, 3 + usize::from(masked)]
            }
            HintKind::Squares { channels, painted } => {
                let channels = if painted { 2 * channels + 1 } else { channels };
                [h.next_multiple_of(2), w.next_multiple_of(2), channels]
            }
        }
    }
}

/// The inputs of a `ControlNet` in a graph.
#[derive(Clone, Copy, Debug)]
pub struct ControlInputs {
    /// `[rows, h, w, c]` of [`HintKind`].
    pub hint: Node,
    /// What its outputs are multiplied by, `[rows]` in f32.
    pub strength: Node,
}

/// Pixels of the picture under one pixel of the latent, along a side.
pub const HINT_SCALE: usize = 8;

impl ControlNet {
    /// What the tensors of a file make up; `None` when it is no known `ControlNet`.
    pub fn detect(find: &Find) -> Option<ControlNet> {
        let unet = unet::ControlConfig::detect(find).map(ControlNet::Unet);
        unet.or_else(|| qwen_image::ControlConfig::detect(find).map(ControlNet::QwenImage))
            .or_else(|| qwen_image::BlockwiseConfig::detect(find).map(ControlNet::QwenBlocks))
            .or_else(|| anima::ControlConfig::detect(find).map(ControlNet::Anima))
            .or_else(|| flux::ControlConfig::detect(find).map(ControlNet::Flux))
            .or_else(|| z_image::ControlConfig::detect(find).map(ControlNet::ZImage))
            .or_else(|| t2i_adapter::Config::detect(find).map(ControlNet::Adapter))
    }

    pub fn hint(&self) -> HintKind {
        match self {
            ControlNet::Unet(c) => HintKind::Pixels {
                channels: c.hint_channels,
                signed: false,
            },
            ControlNet::Flux(c) => match c.hint {
                flux::Hint::Pixels(_) => HintKind::Pixels {
                    channels: 3,
                    signed: true,
                },
                flux::Hint::Latent(channels) => HintKind::Latent {
                    channels,
                    masked: channels == c.blocks.in_channels + 1,
                    smooth: false,
                },
            },
            ControlNet::ZImage(c) => HintKind::Squares {
                channels: c.blocks.channels,
                painted: c.painted,
            },
            ControlNet::QwenImage(c) => HintKind::Latent {
                channels: c.hint,
                masked: c.is_masked(),
                smooth: false,
            },
            ControlNet::QwenBlocks(c) => HintKind::Latent {
                channels: c.hint,
                masked: c.hint > qwen_image::Config::published().channels,
                smooth: true,
            },
            ControlNet::Anima(c) => HintKind::Smooth {
                side: anima::lllite::SIDE,
                masked: c.is_masked(),
                covered: c.covers,
            },
            ControlNet::Adapter(c) => HintKind::Blocks {
                channels: c.channels,
                side: c.square(),
            },
        }
    }

    /// Kinds of pictures that it knows by number; 0 where it is made for one.
    pub fn modes(&self) -> usize {
        match self {
            ControlNet::Unet(c) => c.modes,
            ControlNet::Flux(c) => c.modes,
            // It tells kinds of pictures apart by itself.
            ControlNet::ZImage(_)
            | ControlNet::QwenImage(_)
            | ControlNet::QwenBlocks(_)
            | ControlNet::Anima(_)
            | ControlNet::Adapter(_) => 0,
        }
    }

    /// Whether it was made for a model of these sizes.
    pub fn fits(&self, denoiser: &Denoiser) -> bool {
        match (self, denoiser) {
            (ControlNet::Unet(c), Denoiser::Unet(u)) => {
                let (c, way_up) = (&c.unet, u.out_channels);
                c.input_blocks == u.input_blocks
                    && c.middle == u.middle
                    && c.model_channels == u.model_channels
                    && c.context_dim == u.context_dim
                    && c.adm_in == u.adm_in
                    && c.in_channels == way_up
            }
            (ControlNet::Flux(c), Denoiser::Flux(f)) => {
                let c = &c.blocks;
                let told = !c.takes_guidance() || f.takes_guidance();
                c.hidden == f.hidden
                    && c.head == f.head
                    && c.context_dim == f.context_dim
                    && c.vec_in() == f.vec_in()
                    && c.in_channels == f.out_channels
                    && told
            }
            (ControlNet::ZImage(c), Denoiser::ZImage(z)) => {
                let c = &c.blocks;
                c.dim == z.dim
                    && c.head == z.head
                    && c.channels == z.channels
                    && c.time[1] == z.time[1]
                    && c.n_refiners == z.n_refiners
            }
            (ControlNet::QwenImage(c), Denoiser::QwenImage(q)) => {
                let c = &c.blocks;
                c.dim == q.dim
                    && c.head == q.head
                    && c.channels == q.channels
                    && c.context_dim == q.context_dim
            }
            (ControlNet::QwenBlocks(c), Denoiser::QwenImage(q)) => {
                c.dim == q.dim && c.n_layers >= q.n_layers
            }
            (ControlNet::Anima(c), Denoiser::Anima(a)) => {
                c.dim == a.dim && c.blocks.len() <= a.n_layers
            }
            (ControlNet::Adapter(c), Denoiser::Unet(u)) => {
                let [first, _, third, last] = c.widths;
                let blocks = if c.is_xl() { 8 } else { 11 };
                first == u.model_channels
                    && u.input_blocks.len() == blocks
                    && c.is_xl() == u.adm_in.is_some()
                    && third == last
            }
            _ => false,
        }
    }
}

/// Outputs of the convolutions that a picture goes through; activations stand between them.
pub(crate) fn hint_widths(find: &Find) -> Vec<usize> {
    let layer = |i: usize| find(&format!("input_hint_block.{}.weight", 2 * i));
    (0..64)
        .map_while(|i| layer(i).map(|(shape, _)| shape[0]))
        .collect()
}

/// Convolutions that halve a picture's sides.
const HALVING: [usize; 3] = [2, 4, 6];

/// A picture to values of the latent's size.
pub(crate) fn hint_layers(g: &mut Graph, p: &Params, widths: &[usize], hint: Node) -> Node {
    let mut x = hint;
    for (i, &width) in widths.iter().enumerate() {
        let stride = if HALVING.contains(&i) { 2 } else { 1 };
        let conv = ConvShape {
            stride: [1, stride, stride],
            ..ConvShape::same(width, 3)
        };
        x = p.conv_with(g, &format!("input_hint_block.{}", 2 * i), x, conv);
        if i + 1 < widths.len() {
            x = g.silu(x);
        }
    }
    x
}
