//! `ControlNet`s of every family, and T2I adapters: networks with a hint image as input, whose
//! outputs are added to the activations of a diffusion model. They are recorded into the diffusion
//! model's graph, with parameters below `control.0`, `control.1` and so on.

use crate::denoiser::Denoiser;
use crate::{ConvShape, Find, Params, anima, flux, qwen_image, t2i_adapter, unet, z_image};
use nino_graph::{Graph, Node};

/// A `ControlNet` with its hyperparameters.
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

/// A `ControlNet` in a graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControlSpec {
    pub net: ControlNet,
    /// The control mode, of union models only.
    pub mode: Option<usize>,
}

/// The kind of hint that a `ControlNet` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintKind {
    /// An image at eight times the latent's size, in 0..1 or, `signed`, in −1..1.
    Pixels { channels: usize, signed: bool },
    /// A latent in the model's units. With `masked`, its last channel is 1 where an inpainted image
    /// stays as it is. With `smooth`, the image is resized by area, and is not blanked under the
    /// mask.
    Latent {
        channels: usize,
        masked: bool,
        smooth: bool,
    },
    /// A latent padded to even sides. With `inpaint`, an inpainting mask and the latent of the
    /// masked image are concatenated to it.
    EvenLatent { channels: usize, inpaint: bool },
    /// An image in 0..1, padded to multiples of `factor` for a pixel unshuffle. With one channel,
    /// it is the mean of three.
    Unshuffled { channels: usize, factor: usize },
    /// An image in -1..1, resized smoothly to multiples of `side`. With `masked`, a fourth channel
    /// is 1 where to inpaint and -1 elsewhere; with `covered`, the image is 0 there.
    Smooth {
        side: usize,
        masked: bool,
        covered: bool,
    },
}

impl HintKind {
    /// Rows, columns and channels for a latent of `[h, w]`.
    pub fn size(self, [h, w]: [usize; 2]) -> [usize; 3] {
        match self {
            HintKind::Pixels { channels, .. } => [h * HINT_SCALE, w * HINT_SCALE, channels],
            HintKind::Latent { channels, .. } => [h, w, channels],
            HintKind::Unshuffled { channels, factor } => {
                let [h, w] = [h, w].map(|n| (n * HINT_SCALE).next_multiple_of(factor));
                [h, w, channels]
            }
            HintKind::Smooth { side, masked, .. } => {
                let [h, w] = [h, w].map(|n| (n * HINT_SCALE).next_multiple_of(side));
                [h, w, 3 + usize::from(masked)]
            }
            HintKind::EvenLatent { channels, inpaint } => {
                let channels = if inpaint { 2 * channels + 1 } else { channels };
                [h.next_multiple_of(2), w.next_multiple_of(2), channels]
            }
        }
    }
}

/// The inputs of a `ControlNet` in a graph.
#[derive(Clone, Copy, Debug)]
pub struct ControlInputs {
    /// `[rows, h, w, c]` of [`HintKind::size`].
    pub hint: Node,
    /// Factor of its outputs, `[rows]` in f32.
    pub strength: Node,
}

/// Pixels of a hint image per latent pixel along one side.
pub const HINT_SCALE: usize = 8;

impl ControlNet {
    /// Reads architecture and sizes from tensor shapes; `None` when this is no known `ControlNet`.
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
            ControlNet::ZImage(c) => HintKind::EvenLatent {
                channels: c.blocks.channels,
                inpaint: c.inpaint,
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
            ControlNet::Adapter(c) => HintKind::Unshuffled {
                channels: c.channels,
                factor: c.unshuffle(),
            },
        }
    }

    /// Number of control modes of a union model; 0 for others.
    pub fn modes(&self) -> usize {
        match self {
            ControlNet::Unet(c) => c.modes,
            ControlNet::Flux(c) => c.modes,
            // These take no mode.
            ControlNet::ZImage(_)
            | ControlNet::QwenImage(_)
            | ControlNet::QwenBlocks(_)
            | ControlNet::Anima(_)
            | ControlNet::Adapter(_) => 0,
        }
    }

    /// Whether it was trained for a model of these hyperparameters.
    pub fn fits(&self, denoiser: &Denoiser) -> bool {
        match (self, denoiser) {
            (ControlNet::Unet(c), Denoiser::Unet(u)) => {
                let c = &c.unet;
                c.input_blocks == u.input_blocks
                    && c.middle == u.middle
                    && c.model_channels == u.model_channels
                    && c.context_dim == u.context_dim
                    && c.adm_in == u.adm_in
                    && c.in_channels == u.out_channels
            }
            (ControlNet::Flux(c), Denoiser::Flux(f)) => {
                let c = &c.blocks;
                let has_guidance = !c.takes_guidance() || f.takes_guidance();
                c.hidden == f.hidden
                    && c.head == f.head
                    && c.context_dim == f.context_dim
                    && c.vec_in() == f.vec_in()
                    && c.in_channels == f.out_channels
                    && has_guidance
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

/// Output channels of the convolutions of `input_hint_block`, which has activations between them.
pub(crate) fn hint_widths(find: &Find) -> Vec<usize> {
    let layer = |i: usize| find(&format!("input_hint_block.{}.weight", 2 * i));
    (0..64)
        .map_while(|i| layer(i).map(|(shape, _)| shape[0]))
        .collect()
}

/// Convolutions of `input_hint_block` with stride 2.
const STRIDED: [usize; 3] = [2, 4, 6];

/// `input_hint_block`: encodes a hint image to features of the latent's size.
pub(crate) fn hint_encoder(g: &mut Graph, p: &Params, widths: &[usize], hint: Node) -> Node {
    let mut x = hint;
    for (i, &width) in widths.iter().enumerate() {
        let stride = if STRIDED.contains(&i) { 2 } else { 1 };
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
