//! ControlNet-LLLite of Anima by kohya-ss: a small network embeds the hint image, and modulates the
//! inputs of linear layers in the model's blocks with the embedding (FiLM).
//! Behaviour: ComfyUI's `AnimaLLLite`; names are the authors'.
//! Hint `[b, 16·rows, 16·columns, c]` → embeddings `[b, n, e]`, which modulate inputs `[b, n, d]`.

use crate::denoiser::scaled;
use crate::{ConvShape, Find, Params};
use nino_graph::{Conv, Graph, Node, ReduceFn};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControlConfig {
    /// Channels of the hint: three, and one for the mask of an inpainting model.
    pub channels: usize,
    /// Width of the convolutions.
    pub width: usize,
    /// Width of an embedding.
    pub tokens: usize,
    pub n_res_blocks: usize,
    /// Dilations of parallel convolutions; empty without them. They come from the file's metadata,
    /// not from its tensors.
    pub dilations: Vec<usize>,
    /// Whether the hint image is blanked under the mask. It comes from the file's metadata.
    pub covers: bool,
    /// Input width of the modulated layers.
    pub dim: usize,
    /// Inner width of the modules of each block, one for each of `LAYERS`.
    pub blocks: Vec<[Option<usize>; 5]>,
}

/// The layers of a block whose inputs are modulated.
const LAYERS: [&str; 5] = [
    "self_attn_q_proj",
    "self_attn_k_proj",
    "self_attn_v_proj",
    "cross_attn_q_proj",
    "mlp_layer1",
];
/// Pixels of the hint along one side of a token.
pub(crate) const SIDE: usize = 16;
/// The dilations of files whose metadata names none.
const DILATIONS: [usize; 4] = [1, 2, 4, 8];
const SEES: &str = "lllite_conditioning1";
const EPS: f32 = 1e-5;
const STRIDE: usize = 4;

/// Such a ControlNet in a graph.
pub struct Control<'a> {
    /// At the prefix of its parameters.
    pub p: Params<'a>,
    pub config: &'a ControlConfig,
    /// Factor of its changes, `[b]`, f32.
    pub strength: Node,
    /// Embedding of the hint, `[b, n, e]`.
    pub seen: Node,
}

impl ControlConfig {
    /// `None` when this is not such a ControlNet.
    pub fn detect(find: &Find) -> Option<ControlConfig> {
        let rows = |name: &str| find(name).map(|(shape, _)| shape[0]);
        let sees = |name: &str| rows(&format!("{SEES}.{name}"));
        let count = |name: &dyn Fn(usize) -> String| {
            (0..256).take_while(|&i| sees(&name(i)).is_some()).count()
        };
        let layer = |i: usize, layer: &str| format!("lllite_dit_blocks_{i}_{layer}.down.weight");
        let has_any = |i: &usize| LAYERS.iter().any(|l| find(&layer(*i, l)).is_some());
        let n_blocks = (0..256).filter(has_any).max()? + 1;
        let inner = |i: usize| LAYERS.map(|l| rows(&layer(i, l)));
        let dim = (0..n_blocks).find_map(|i| {
            let mut all = LAYERS.iter().filter_map(|l| find(&layer(i, l)));
            all.find_map(|(shape, _)| shape.get(1).copied())
        })?;
        let n_branches = count(&|i| format!("aspp.branches.{i}.0.weight"));
        let channels = find(&format!("{SEES}.conv1.weight"))?.0;
        Some(ControlConfig {
            channels: *channels.get(1)?,
            width: sees("conv3.weight")?,
            tokens: sees("proj.weight")?,
            n_res_blocks: count(&|i| format!("resblocks.{i}.conv1.weight")),
            dilations: DILATIONS.into_iter().take(n_branches).collect(),
            covers: false,
            dim,
            blocks: (0..n_blocks).map(inner).collect(),
        })
    }

    /// The same with what a file says in its texts `lllite.aspp_dilations` and
    /// `lllite.inpaint_masked_input`.
    #[must_use]
    pub fn told(&self, dilations: Option<&str>, covers: Option<&str>) -> ControlConfig {
        let given = dilations.map(|text| {
            let numbers = text.split(',').filter_map(|n| n.trim().parse().ok());
            numbers.filter(|&n| n > 0).collect::<Vec<usize>>()
        });
        let given = given.filter(|given| given.len() == self.dilations.len());
        ControlConfig {
            dilations: given.unwrap_or_else(|| self.dilations.clone()),
            covers: covers.is_some_and(|text| text.eq_ignore_ascii_case("true")),
            ..self.clone()
        }
    }

    pub fn is_masked(&self) -> bool {
        self.channels == 4
    }
}

impl<'a> Control<'a> {
    /// `hint` is `[b, 16·rows, 16·columns, c]`.
    pub fn begin(
        g: &mut Graph,
        p: Params<'a>,
        config: &'a ControlConfig,
        hint: Node,
        strength: Node,
    ) -> Control<'a> {
        let seen = sees(g, &p.at(SEES), config, hint);
        Control {
            p,
            config,
            strength,
            seen,
        }
    }

    /// What enters a layer of block `i`, `[b, n, d]`, changed by the picture.
    pub(super) fn changed(&self, g: &mut Graph, i: usize, layer: Layer, x: Node) -> Node {
        let inner = self.config.blocks.get(i);
        let Some(inner) = inner.and_then(|block| block[layer as usize]) else {
            return x;
        };
        let name = format!("lllite_dit_blocks_{i}_{}", LAYERS[layer as usize]);
        let (p, e) = (&self.p.at(&name), self.config.tokens);
        let depth = p.vector(g, "depth_embed", e);
        let depth = g.cast(depth, g.dtype(self.seen));
        let seen = g.add(self.seen, depth); // [b, n, e]
        let h = p.linear(g, "down", x, inner);
        let h = g.silu(h);
        let film = p.linear(g, "cond_to_film", seen, 2 * inner);
        let film = g.split(film, 2, 2); // gamma, beta
        let h = g.concat(&[seen, h], 2);
        let h = p.linear(g, "mid", h, inner);
        let gamma = g.affine(film[0], 1.0, 1.0);
        let h = g.mul(h, gamma);
        let h = g.add(h, film[1]);
        let h = g.silu(h);
        let h = p.linear(g, "up", h, self.config.dim);
        let h = scaled(g, h, self.strength);
        g.add(x, h)
    }

    /// All changes of one input, for a graph of the network alone.
    pub(crate) fn alone(&self, g: &mut Graph, mut x: Node) {
        for i in 0..self.config.blocks.len() {
            for layer in Layer::ALL {
                x = self.changed(g, i, layer, x);
            }
        }
    }
}

/// A layer of `LAYERS`.
#[derive(Clone, Copy)]
pub(super) enum Layer {
    SelfQ,
    SelfK,
    SelfV,
    CrossQ,
    Mlp,
}

impl Layer {
    const ALL: [Layer; 5] = [
        Layer::SelfQ,
        Layer::SelfK,
        Layer::SelfV,
        Layer::CrossQ,
        Layer::Mlp,
    ];
}

/// The picture as tokens, `[b, n, e]`.
fn sees(g: &mut Graph, p: &Params, c: &ControlConfig, hint: Node) -> Node {
    let coarser = |cout: usize| ConvShape {
        kernel: [1, STRIDE, STRIDE],
        stride: [1, STRIDE, STRIDE],
        pad: [0; 4],
        ..ConvShape::same(cout, 1)
    };
    let x = p.conv_with(g, "conv1", hint, coarser(c.width / 2));
    let x = active(g, p, "norm1", x);
    let x = p.conv(g, "conv2", x, c.width / 2, 3);
    let x = active(g, p, "norm2", x);
    let x = p.conv_with(g, "conv3", x, coarser(c.width));
    let mut x = active(g, p, "norm3", x);
    for i in 0..c.n_res_blocks {
        let p = &p.at(format_args!("resblocks.{i}"));
        let h = active(g, p, "norm1", x);
        let h = p.conv(g, "conv1", h, c.width, 3);
        let h = active(g, p, "norm2", h);
        let h = p.conv(g, "conv2", h, c.width, 3);
        x = g.add(x, h);
    }
    if !c.dilations.is_empty() {
        x = parallel(g, &p.at("aspp"), c, x);
    }
    let x = p.conv(g, "proj", x, c.tokens, 1);
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(x)[axis]);
    let x = g.reshape(x, [b, h * w, c.tokens]);
    p.layer_norm(g, "out_norm", x, EPS)
}

/// Convolutions with taps at several distances beside the mean of all, brought together.
fn parallel(g: &mut Graph, p: &Params, c: &ControlConfig, x: Node) -> Node {
    let mut all = Vec::new();
    for (i, &dilation) in c.dilations.iter().enumerate() {
        let p = &p.at(format_args!("branches.{i}"));
        let y = match dilation {
            1 => p.conv(g, "0", x, c.width, 1),
            _ => dilated(g, p, c.width, dilation, x),
        };
        all.push(active(g, p, "1", y));
    }
    let p_mean = &p.at("global_conv");
    let mean = g.reduce(x, 1, ReduceFn::Mean);
    let mean = g.reduce(mean, 2, ReduceFn::Mean); // [b, 1, 1, c]
    let mean = p_mean.conv(g, "0", mean, c.width, 1);
    let mean = active(g, p_mean, "1", mean);
    let nothing = g.affine(x, 0.0, 0.0);
    all.push(g.add(nothing, mean));
    let x = g.concat(&all, 3);
    let p = &p.at("proj");
    let x = p.conv(g, "0", x, c.width, 1);
    active(g, p, "1", x)
}

fn dilated(g: &mut Graph, p: &Params, width: usize, dilation: usize, x: Node) -> Node {
    let w = p.kernel(g, "0", x, &ConvShape::same(width, 3));
    let bias = p.vector(g, "0.bias", width);
    g.push(Conv {
        dilation: [dilation; 2],
        ..Conv::plain(x, w, Some(bias), [1; 3], [dilation; 4])
    })
}

/// A norm in groups and its activation.
fn active(g: &mut Graph, p: &Params, name: &str, x: Node) -> Node {
    let channels = g.shape(x).last_dim();
    let mut groups = 8;
    while groups > 1 && !channels.is_multiple_of(groups) {
        groups /= 2;
    }
    let x = p.group_norm(g, name, x, groups, EPS);
    g.silu(x)
}
