//! The tensors of a network, read from the graph that its model records. A model is described once,
//! by the code that runs it: detection, the check at load time and plans without a file take their
//! tensor lists from here.

use crate::{
    Chunk, ControlNet, Denoiser, DenoiserShape, Find, Frames, Params, SoundShape, Storage,
    Upscaler, Vae, VaeError, anima, clip, clip_vision, flux, kl, llm, qwen_image, qwen_vision,
    qwen3_vision, redux, t2i_adapter, t5, unet, upscaler, uso, wan_transformer, wav2vec2, z_image,
};
use nino_dtype::DType;
use nino_graph::{Graph, GraphError, Shape};
use nino_weights::names::Net;
use nino_weights::{Entry, Format, Index};

/// A network that this crate can record, with its hyperparameters. One variant per kind of network.
#[derive(Clone, Debug, PartialEq)]
pub enum Network {
    Denoiser(Denoiser),
    ControlNet(ControlNet),
    ClipText(clip::Config),
    ClipVision(clip_vision::Config),
    QwenVision(qwen_vision::Config),
    Qwen3Vision(qwen3_vision::Config),
    Redux(redux::Config),
    Uso(uso::Config),
    T5(t5::Config),
    Llm(llm::Config),
    Vae(Vae),
    Upscaler(Upscaler),
    Wav2Vec2(wav2vec2::Config),
}

/// One tensor of a network, as a file with canonical names stores it. Where files differ in
/// dimensions of size one (a linear layer stored as a 1×1 convolution), this is the shape without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    pub name: String,
    /// Kernels are `[cout, cin, k..]`.
    pub shape: Vec<usize>,
    pub need: Need,
}

/// When a file must have a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Always,
    /// Some files do not have it, and the network works without.
    Optional,
    /// When the file has the encoder of the autoencoder.
    Encoder,
    /// When the file has the decoder of the autoencoder.
    Decoder,
}

/// Why no network can be recorded with these sizes, for example with those of a damaged file.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Vae(#[from] VaeError),
}

impl Network {
    /// Whether this crate has a model of the network.
    pub fn is_supported(net: Net) -> bool {
        match net {
            Net::Unet | Net::Flux | Net::Wan | Net::ZImage | Net::QwenImage | Net::Krea2 => true,
            Net::Anima => true,
            Net::ClipText | Net::ClipVision | Net::T5 | Net::Llm => true,
            Net::QwenVision | Net::Qwen3Vision => true,
            Net::Redux => true,
            Net::KlVae | Net::WanVae | Net::Taesd | Net::Taehv => true,
            Net::ControlNet | Net::T2iAdapter => true,
            Net::Rrdb | Net::Srvgg => true,
            Net::Wav2Vec2 => true,
        }
    }

    /// Reads the hyperparameters of a network of a known kind. `None` when the tensors that
    /// determine them are missing, and for networks that this crate has no model of.
    pub fn detect(net: Net, find: &Find) -> Option<Network> {
        match net {
            Net::Unet
            | Net::Flux
            | Net::Wan
            | Net::ZImage
            | Net::QwenImage
            | Net::Krea2
            | Net::Anima => Denoiser::detect(find).map(Network::Denoiser),
            Net::ClipText => clip::Config::detect(find).map(Network::ClipText),
            Net::T5 => t5::Config::detect(find).map(Network::T5),
            Net::Llm => llm::Config::detect(find).map(Network::Llm),
            Net::KlVae | Net::WanVae | Net::Taesd | Net::Taehv => {
                Vae::detect(find).map(Network::Vae)
            }
            Net::ClipVision => clip_vision::Config::detect(find).map(Network::ClipVision),
            Net::QwenVision => qwen_vision::Config::detect(find).map(Network::QwenVision),
            Net::Qwen3Vision => qwen3_vision::Config::detect(find).map(Network::Qwen3Vision),
            Net::Redux => {
                let redux = redux::Config::detect(find).map(Network::Redux);
                redux.or_else(|| uso::Config::detect(find).map(Network::Uso))
            }
            Net::ControlNet | Net::T2iAdapter => ControlNet::detect(find).map(Network::ControlNet),
            Net::Rrdb | Net::Srvgg => Upscaler::detect(find).map(Network::Upscaler),
            Net::Wav2Vec2 => wav2vec2::Config::detect(find).map(Network::Wav2Vec2),
        }
    }
}

/// Every tensor of a network, in the order its model uses them.
pub fn tensors(network: &Network) -> Result<Vec<TensorSpec>, DescribeError> {
    match network {
        Network::Denoiser(d) => Ok(parameters(&denoiser_graph(d)?, Need::Always).collect()),
        Network::ControlNet(c) => Ok(parameters(&control_graph(c)?, Need::Always).collect()),
        Network::ClipText(c) => {
            let mut tensors: Vec<_> = parameters(&clip_graph(c)?, Need::Always).collect();
            // Only the pooled embedding needs it. SD 1.x does not use that, and many of its files
            // have no projection.
            let projection = tensors.iter_mut().find(|t| t.name == clip::PROJECTION);
            projection.into_iter().for_each(|t| t.need = Need::Optional);
            Ok(tensors)
        }
        Network::ClipVision(c) => Ok(parameters(&clip_vision_graph(c)?, Need::Always).collect()),
        Network::QwenVision(c) => Ok(parameters(&qwen_vision_graph(c)?, Need::Always).collect()),
        Network::Qwen3Vision(c) => Ok(parameters(&qwen3_vision_graph(c)?, Need::Always).collect()),
        Network::Redux(c) => Ok(parameters(&redux_graph(c)?, Need::Always).collect()),
        Network::Uso(c) => Ok(parameters(&uso_graph(c)?, Need::Always).collect()),
        Network::T5(c) => Ok(parameters(&t5_graph(c)?, Need::Always).collect()),
        Network::Llm(c) => {
            let mut tensors: Vec<_> = parameters(&llm_graph(c)?, Need::Always).collect();
            if !c.kind.always_has_final_norm() {
                let norm = tensors.iter_mut().find(|t| t.name == llm::FINAL_NORM);
                norm.into_iter().for_each(|t| t.need = Need::Optional);
            }
            Ok(tensors)
        }
        Network::Vae(vae) => vae_tensors(vae),
        Network::Upscaler(u) => Ok(parameters(&upscaler_graph(u)?, Need::Always).collect()),
        Network::Wav2Vec2(c) => {
            let mut tensors: Vec<_> = parameters(&wav2vec2_graph(c)?, Need::Always).collect();
            tensors.push(wav2vec2::folded::lengths());
            Ok(tensors)
        }
    }
}

/// An index that lists a network's tensors in `dtype`, as a file would, and has no bytes.
pub fn index(network: &Network, dtype: DType) -> Result<Index, DescribeError> {
    let entry = |t: TensorSpec| Entry {
        name: t.name,
        dtype,
        shape: t.shape,
        spans: Vec::new(),
        strides: None,
        scale: None,
        recoded: None,
    };
    let entries = tensors(network)?.into_iter().map(entry).collect();
    Ok(Index::new(Format::Safetensors, Vec::new(), entries))
}

impl TensorSpec {
    /// Whether a tensor stored in this shape can be read as this one.
    pub fn fits(&self, stored: &[usize]) -> bool {
        let wanted = match self.shape[..] {
            // A kernel: channels go last in the graph.
            [cout, cin, ref kernel @ ..] if matches!(kernel.len(), 2 | 3) => {
                [&[cout], kernel, &[cin]].concat()
            }
            _ => self.shape.clone(),
        };
        Shape::try_new(&wanted).is_some_and(|wanted| crate::layout(stored, wanted).is_some())
    }
}

/// Side of latents; the list of parameters does not depend on it.
const SIDE: usize = 64;

fn denoiser_graph(denoiser: &Denoiser) -> Result<Graph, GraphError> {
    // No tensor has the number of heads or groups of a UNet as its size. One of each divides every
    // width, even that of a damaged file.
    let denoiser = match denoiser {
        Denoiser::Unet(c) => Denoiser::Unet(unet::Config {
            heads: unet::Heads::Count(1),
            groups: 1,
            ..c.clone()
        }),
        other @ (Denoiser::Anima(_)
        | Denoiser::Flux(_)
        | Denoiser::Flux2(_)
        | Denoiser::Krea2(_)
        | Denoiser::QwenImage(_)
        | Denoiser::Wan(_)
        | Denoiser::ZImage(_)) => other.clone(),
    };
    // Wan's layers for a reference latent and for audio are only recorded with these.
    let has_reference = matches!(&denoiser, Denoiser::Wan(c) if c.reference.is_some());
    let sound = SoundShape {
        audio_frames: wan_transformer::AUDIO_FRAMES,
        control: true,
        motion: true,
    };
    let shape = DenoiserShape {
        rows: 1,
        frames: 1,
        height: SIDE,
        width: SIDE,
        tokens: 1,
        t5_tokens: 1,
        references: has_reference.then_some([SIDE, SIDE]).into_iter().collect(),
        image_tokens: 1,
        controls: 1,
        camera: true,
        sound,
        ..DenoiserShape::default()
    };
    let params = Params::uniform(DType::F16);
    Ok(denoiser.record(&params, &shape, DType::F32, false)?.graph)
}

/// A graph of the `ControlNet` alone.
fn control_graph(net: &ControlNet) -> Result<Graph, GraphError> {
    let mut g = Graph::new();
    let p = &Params::uniform(DType::F16);
    let t = g.input("t", [1], DType::F32);
    let [h, w, c] = net.hint().size([SIDE; 2]);
    let hint = g.input("hint", [1, h, w, c], DType::F32);
    match net {
        ControlNet::Unet(c) => {
            // No tensor has the number of heads or groups as its size.
            let unet = unet::Config {
                heads: unet::Heads::Count(1),
                groups: 1,
                ..c.unet.clone()
            };
            let c = unet::ControlConfig { unet, ..c.clone() };
            let inputs = unet::Inputs {
                x: g.input("x", [1, SIDE, SIDE, c.unet.in_channels], DType::F32),
                t,
                context: g.input("context", [1, 1, c.unet.context_dim], DType::F32),
                y: c.unet.adm_in.map(|n| g.input("y", [1, n], DType::F32)),
                guidance: None,
                perturbed: false,
            };
            unet::control(&mut g, p, &c, inputs, hint, (c.modes > 0).then_some(0));
        }
        ControlNet::Flux(c) => {
            let b = &c.blocks;
            let inputs = flux::Inputs {
                style: None,
                x: g.input("x", [1, SIDE, SIDE, b.in_channels], DType::F32),
                t,
                context: g.input("context", [1, 1, b.context_dim], DType::F32),
                y: b.vec_in().map(|n| g.input("y", [1, n], DType::F32)),
                guidance: b
                    .takes_guidance()
                    .then(|| g.input("guidance", [1], DType::F32)),
                references: &[],
                reference_method: flux::ReferenceMethod::default(),
                bias: None,
            };
            let mode = (c.modes > 0).then_some(0);
            flux::control(&mut g, p, c, inputs, hint, mode);
        }
        ControlNet::QwenImage(c) => {
            let b = &c.blocks;
            let inputs = qwen_image::Inputs {
                x: g.input("x", [1, SIDE, SIDE, b.channels], DType::F32),
                t,
                context: g.input("context", [1, 1, b.context_dim], DType::F32),
                references: &[],
                references_at_zero: false,
            };
            qwen_image::control(&mut g, p, c, inputs, hint);
        }
        ControlNet::QwenBlocks(c) => {
            qwen_image::Blockwise::begin(&mut g, p.at(""), c, hint, t).alone(&mut g);
        }
        ControlNet::Anima(c) => {
            let control = anima::Control::begin(&mut g, p.at(""), c, hint, t);
            let n = h * w / (anima::lllite::SIDE * anima::lllite::SIDE);
            let x = g.input("x", [1, n, c.dim], DType::F32);
            control.alone(&mut g, x);
        }
        ControlNet::Adapter(c) => {
            t2i_adapter::adapter(&mut g, p, c, hint);
        }
        ControlNet::ZImage(c) => {
            let (n, b) = (SIDE * SIDE / 4, &c.blocks);
            let x = g.input("x", [1, n, b.dim], DType::F32);
            let rope = g.input("places", [n, b.head / 2, 2], DType::F32);
            let time = g.input("level", [1, b.time[1]], DType::F32);
            let control = z_image::Control {
                p: p.at(""),
                config: c,
                hint,
                strength: t,
            };
            control.record_alone(&mut g, x, [rope, time]);
        }
    }
    g.finish()
}

fn clip_graph(c: &clip::Config) -> Result<Graph, GraphError> {
    let c = &clip::Config {
        heads: 1,
        ..c.clone()
    };
    let mut g = Graph::new();
    let p = Params::uniform(DType::F16);
    let ids = g.input("ids", [1, 1], DType::I32);
    let end = g.input("end", [1, 1, 1], DType::F32);
    let x = clip::embed(&mut g, &p, c, ids, DType::F32);
    let all = clip::Want {
        skip: 1,
        norm: true,
        pooled: clip::Pooled::Projected,
    };
    clip::encoder(&mut g, &p, c, x, end, all);
    g.finish()
}

fn clip_vision_graph(c: &clip_vision::Config) -> Result<Graph, GraphError> {
    let c = &clip_vision::Config {
        heads: 1,
        ..c.clone()
    };
    let mut g = Graph::new();
    let p = Params::uniform(DType::F16);
    let pixels = g.input("pixels", [1, c.image, c.image, 3], DType::F32);
    clip_vision::outputs(&mut g, &p, c, pixels, &[1], true);
    g.finish()
}

fn qwen_vision_graph(c: &qwen_vision::Config) -> Result<Graph, GraphError> {
    let mut g = Graph::new();
    let p = Params::uniform(DType::F16);
    let side = qwen_vision::PATCH * qwen_vision::MERGE;
    let pixels = g.input("pixels", [1, side, side, 3], DType::F32);
    qwen_vision::encoder(&mut g, &p, c, pixels);
    g.finish()
}

fn qwen3_vision_graph(c: &qwen3_vision::Config) -> Result<Graph, GraphError> {
    let mut g = Graph::new();
    let p = Params::uniform(DType::F16);
    let pixels = g.input(
        "pixels",
        [1, qwen3_vision::SIDE, qwen3_vision::SIDE, 3],
        DType::F32,
    );
    qwen3_vision::encoder(&mut g, &p, c, pixels);
    g.finish()
}

fn redux_graph(c: &redux::Config) -> Result<Graph, GraphError> {
    let mut g = Graph::new();
    let p = Params::uniform(DType::F16);
    let states = g.input("states", [1, 1, c.redux_dim], DType::F32);
    redux::redux(&mut g, &p, c, states);
    g.finish()
}

fn uso_graph(c: &uso::Config) -> Result<Graph, GraphError> {
    let mut g = Graph::new();
    let p = Params::uniform(DType::F16);
    let states = g.input("states", [1, c.tokens, c.siglip], DType::F32);
    uso::projector(&mut g, &p, c, [states; 3]);
    g.finish()
}

fn t5_graph(c: &t5::Config) -> Result<Graph, GraphError> {
    let mut g = Graph::new();
    let p = Params::uniform(DType::F16);
    let ids = g.input("ids", [1, 1], DType::I32);
    let x = t5::embed(&mut g, &p, c, ids, DType::F32);
    let last = t5::Want {
        skip: 1,
        mask: None,
        layers: DType::F32,
    };
    t5::encoder(&mut g, &p, c, x, last);
    g.finish()
}

fn upscaler_graph(upscaler: &Upscaler) -> Result<Graph, GraphError> {
    let mut g = Graph::new();
    let p = Params::uniform(DType::F16);
    let whole = upscaler::Piece::Whole;
    let channels = upscaler.shape(whole).channels;
    let x = g.input("x", [1, SIDE, SIDE, channels], DType::F32);
    upscaler.record(&mut g, &p, whole, x);
    g.finish()
}

fn wav2vec2_graph(c: &wav2vec2::Config) -> Result<Graph, GraphError> {
    let mut g = Graph::new();
    let p = Params::uniform(DType::F16);
    let samples = g.input("samples", [1, 1, wav2vec2::RATE, 1], DType::F32);
    wav2vec2::encoder(&mut g, &p, c, samples);
    g.finish()
}

fn llm_graph(c: &llm::Config) -> Result<Graph, GraphError> {
    let mut g = Graph::new();
    let p = Params::uniform(DType::F16);
    let ids = g.input("ids", [1, 1], DType::I32);
    let mask = g.input("mask", [1, 1, 1, 1], DType::F32);
    let x = llm::embed(&mut g, &p, c, ids, DType::F32);
    let last = llm::Want {
        taps: &[c.n_layers],
        mask,
        positions: None,
        deepstack: &[],
        layers: DType::F32,
    };
    let x = llm::encoder(&mut g, &p, c, x, &last);
    llm::final_norm(&mut g, &p, c, x);
    g.finish()
}

fn vae_tensors(vae: &Vae) -> Result<Vec<TensorSpec>, DescribeError> {
    let vae = &match vae.clone() {
        Vae::Kl(c) => Vae::Kl(kl::Config { groups: 1, ..c }),
        other => other,
    };
    // The first chunk of a video has no temporal upsampling; only later ones use every layer.
    let first = vae.time_scale().is_none();
    let chunk = |frames, side| Chunk {
        batch: 1,
        frames,
        height: side,
        width: side,
        first,
        at_once: Frames::Together,
    };
    let storage = Storage {
        activations: DType::F32,
        weights: &|_| DType::F16,
        scale: kl::Scale::default(),
    };
    let frames = vae.time_scale().unwrap_or(1);
    let mut tensors = Vec::new();
    for (need, half) in [
        (
            Need::Encoder,
            vae.encode(chunk(frames, vae.scale()), &storage),
        ),
        (Need::Decoder, vae.decode(chunk(1, 1), &storage)),
    ] {
        match half {
            Ok(recording) => tensors.extend(parameters(&recording.graph, need)),
            Err(VaeError::NoPart { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if let Vae::Kl(c) = vae {
        tensors.extend(packed_statistics(c));
    }
    Ok(tensors)
}

/// The parameters that a graph reads from a file, in the file's layout.
fn parameters(graph: &Graph, need: Need) -> impl Iterator<Item = TensorSpec> {
    let from_file = graph.params().filter(|(_, p)| p.inline.is_none());
    from_file.map(move |(_, p)| TensorSpec {
        name: p.name.clone(),
        shape: match *p.shape {
            // A kernel: files have its channels before its taps.
            [cout, ref kernel @ .., cin] if matches!(kernel.len(), 2 | 3) => {
                [&[cout, cin], kernel].concat()
            }
            ref shape => shape.to_vec(),
        },
        need,
    })
}

/// The batch norm statistics of Flux.2's packed latents, which are applied outside of the graph.
fn packed_statistics(c: &kl::Config) -> Vec<TensorSpec> {
    if c.z_channels != kl::Config::flux2().z_channels {
        return Vec::new();
    }
    let statistic = |name: &str| TensorSpec {
        name: name.to_owned(),
        shape: vec![4 * c.z_channels],
        need: Need::Optional,
    };
    ["bn.running_mean", "bn.running_var"]
        .map(statistic)
        .to_vec()
}
