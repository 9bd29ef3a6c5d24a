//! CLIP vision encoders: OpenCLIP's ViT-H (Wan 2.1 image to video) and others of its layout, and
//! SigLIP (Flux Redux). Behavior: <https://github.com/openai/CLIP> `clip/model.py`, and for SigLIP
//! ComfyUI's; names are Hugging Face's `CLIPVisionModel`'s.
//! Normalized pixels `[b, h, w, 3]` → hidden states `[b, n, d]`; CLIP's first token is the class
//! token.

use crate::{ConvShape, Find, Params};
use nino_graph::{Act, Graph, Node};

/// The architecture of the vision tower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tower {
    Clip,
    /// Without a class token and without a norm before the layers.
    Siglip,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub tower: Tower,
    /// Pixels along both sides of the input image.
    pub image: usize,
    /// Patch size: pixels along one side of a token.
    pub patch: usize,
    pub width: usize,
    pub mlp: usize,
    pub heads: usize,
    pub n_layers: usize,
    pub act: Act,
    /// Width of the image embedding, where the file has `visual_projection`.
    pub projection: Option<usize>,
}

const PATCHES: &str = "vision_model.embeddings.patch_embedding";
const POSITIONS: &str = "vision_model.embeddings.position_embedding.weight";
const LAYERS: &str = "vision_model.encoder.layers";
const POST_LAYERNORM: &str = "vision_model.post_layernorm";
const PROJECTION: &str = "visual_projection";
const EPS: f32 = 1e-5;

/// CLIP's normalization of pixels: mean and standard deviation of red, green and blue.
pub const MEAN: [f32; 3] = [0.481_454_66, 0.457_827_5, 0.408_210_73];
pub const STD: [f32; 3] = [0.268_629_54, 0.261_302_6, 0.275_777_1];

impl Tower {
    /// Normalization of pixels: mean and standard deviation of red, green and blue.
    pub fn mean_std(self) -> ([f32; 3], [f32; 3]) {
        match self {
            Tower::Clip => (MEAN, STD),
            Tower::Siglip => ([0.5; 3], [0.5; 3]),
        }
    }
}

impl Config {
    /// SigLIP so400m/14 of 384 pixels.
    pub fn siglip() -> Config {
        Config {
            tower: Tower::Siglip,
            image: 384,
            patch: 14,
            width: 1152,
            mlp: 4304,
            heads: 16,
            n_layers: 27,
            act: Act::GeluTanh,
            projection: None,
        }
    }

    /// OpenCLIP's ViT-H/14.
    pub fn clip_h() -> Config {
        Config {
            tower: Tower::Clip,
            image: 224,
            patch: 14,
            width: 1280,
            mlp: 5120,
            heads: 16,
            n_layers: 32,
            act: Act::Gelu,
            projection: None,
        }
    }

    /// Tokens of one image.
    pub fn tokens(&self) -> usize {
        let side = self.image / self.patch.max(1);
        match self.tower {
            Tower::Clip => side * side + 1,
            Tower::Siglip => side * side,
        }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not a CLIP vision encoder.
    pub fn detect(find: &Find) -> Option<Config> {
        let shape = |name: &str| find(name).map(|(s, _)| s);
        let [width, _, patch, _] = *shape(&format!("{PATCHES}.weight"))? else {
            return None;
        };
        let tower = match shape("vision_model.embeddings.class_embedding") {
            Some(_) => Tower::Clip,
            None => Tower::Siglip,
        };
        let fc1 = |i: usize| shape(&format!("{LAYERS}.{i}.mlp.fc1.weight"));
        let (tokens, mlp) = (shape(POSITIONS)?[0], fc1(0)?[0]);
        let n_layers = (0..256).take_while(|&i| fc1(i).is_some()).count();
        if tower == Tower::Siglip {
            let side = tokens.isqrt();
            return (side * side == tokens && side > 0).then_some(Config {
                tower,
                // Patches of 14 pixels leave a margin of 6 in 384.
                image: match (side, patch) {
                    (27, 14) => 384,
                    _ => side.checked_mul(patch)?,
                },
                patch,
                width,
                mlp,
                heads: (width / 72).max(1),
                n_layers,
                act: Act::GeluTanh,
                projection: None,
            });
        }
        let projection = shape(&format!("{PROJECTION}.weight"));
        let projection = projection.and_then(|s| match *s {
            [out, from] if from == width => Some(out),
            _ => None,
        });
        let side = tokens.saturating_sub(1).isqrt();
        (side * side + 1 == tokens && side > 0).then_some(Config {
            tower,
            image: side.checked_mul(patch)?,
            patch,
            width,
            mlp,
            // ViT-H and bigG have larger head dimensions than the others.
            heads: match width {
                1280 | 1664 => 16,
                _ => (width / 64).max(1),
            },
            n_layers,
            // Only OpenAI's own models, the narrower ones, use QuickGELU.
            act: if width <= 1024 {
                Act::QuickGelu
            } else {
                Act::Gelu
            },
            projection: projection.filter(|_| shape(&format!("{POST_LAYERNORM}.weight")).is_some()),
        })
    }
}

/// Outputs of the encoder.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// Hidden states `[b, n, d]`, one entry for each of the requested layers.
    pub hidden_states: Vec<Node>,
    /// Projected class token, `[b, projection]`.
    pub image_embeds: Option<Node>,
}

/// Hidden states `[b, n, d]` after all layers but the last `skip - 1`. Those of SigLIP's last layer
/// go through the final layer norm.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, pixels: Node, skip: usize) -> Node {
    outputs(g, p, c, pixels, &[skip], false).hidden_states[0]
}

/// The hidden states of [`encoder`] for each of `skips`. With `image_embeds`, also the image
/// embedding, where the file has a projection.
pub fn outputs(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    pixels: Node,
    skips: &[usize],
    image_embeds: bool,
) -> Outputs {
    let b = g.shape(pixels)[0];
    let patches = ConvShape {
        cout: c.width,
        kernel: [1, c.patch, c.patch],
        stride: [1, c.patch, c.patch],
        pad: [0; 4],
        bias: c.tower == Tower::Siglip,
    };
    let x = p.conv_with(g, PATCHES, pixels, patches); // [b, h/patch, w/patch, d]
    let n = g.shape(x)[1] * g.shape(x)[2];
    let x = g.reshape(x, [b, n, c.width]);
    let x = match c.tower {
        Tower::Clip => prepend_class_token(g, p, c, x),
        Tower::Siglip => x,
    };
    let positions = p.matrix(g, POSITIONS, c.tokens(), c.width);
    let positions = g.cast(positions, g.dtype(x));
    let mut x = g.add(x, positions);
    if c.tower == Tower::Clip {
        x = p.layer_norm(g, "vision_model.pre_layrnorm", x, EPS);
    }
    let stop = |skip: usize| c.n_layers + 1 - skip.clamp(1, c.n_layers.max(1));
    let projection = c.projection.filter(|_| image_embeds);
    let last = if projection.is_some() { Some(1) } else { None };
    let deepest = skips.iter().copied().chain(last).map(stop).max();
    let mut hidden_states = vec![x; skips.len()];
    for i in 0..deepest.unwrap_or(0) {
        x = layer(g, &p.at(format_args!("{LAYERS}.{i}")), c, x);
        let mut hidden = x;
        if c.tower == Tower::Siglip && i + 1 == c.n_layers {
            hidden = p.layer_norm(g, POST_LAYERNORM, x, EPS);
        }
        let wanted = hidden_states.iter_mut().zip(skips);
        for (state, _) in wanted.filter(|(_, skip)| stop(**skip) == i + 1) {
            *state = hidden;
        }
    }
    let image_embeds = projection.map(|projection| {
        let class_token = g.slice(x, 1, 0, 1);
        let class_token = g.reshape(class_token, [b, c.width]);
        let class_token = p.layer_norm(g, POST_LAYERNORM, class_token, EPS);
        p.linear_no_bias(g, PROJECTION, class_token, projection)
    });
    Outputs {
        hidden_states,
        image_embeds,
    }
}

/// The class token before the patch tokens `[b, n, d]`.
fn prepend_class_token(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let b = g.shape(x)[0];
    let class_token = p.vector(g, "vision_model.embeddings.class_embedding", c.width);
    let class_token = g.reshape(class_token, [1, 1, c.width]);
    let class_token = g.cast(class_token, g.dtype(x));
    let class_token = g.concat(&vec![class_token; b], 0); // [b, 1, d]
    g.concat(&[class_token, x], 1)
}

fn layer(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let h = p.layer_norm(g, "layer_norm1", x, EPS);
    let h = self_attn(g, &p.at("self_attn"), c, h);
    let x = g.add(x, h);
    let h = p.layer_norm(g, "layer_norm2", x, EPS);
    let h = p.linear(g, "mlp.fc1", h, c.mlp);
    let h = g.act(h, c.act);
    let h = p.linear(g, "mlp.fc2", h, c.width);
    let y = g.add(x, h);
    p.label(g, y)
}

fn self_attn(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let (b, n, d) = (g.shape(x)[0], g.shape(x)[1], c.width);
    let [q, k, v] = ["q_proj", "k_proj", "v_proj"].map(|name| {
        let y = p.linear(g, name, x, d);
        g.reshape(y, [b, n, c.heads, d / c.heads]) // [b, n, heads, hd]
    });
    let y = g.attention(q, k, v, None);
    let y = g.reshape(y, [b, n, d]);
    p.linear(g, "out_proj", y, d)
}
