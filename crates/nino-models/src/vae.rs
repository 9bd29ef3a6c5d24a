//! The common interface of all autoencoders: detection, hyperparameters, and the graphs of encoder
//! and decoder.
//!
//! Images are in 0..1 in this interface, whatever range the network uses.

use crate::{Cache, Find, Params, Stream, kl, taehv, taesd, wan};
use nino_dtype::DType;
use nino_graph::{Graph, GraphError, Node, NormKind, Op, Over, Shape, Stats};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vae {
    Kl(kl::Config),
    Taesd(Taesd),
    Wan(wan::Config),
    Taehv(taehv::Config),
}

/// A TAESD: encoder and decoder in two files, or in one file with prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taesd {
    pub config: taesd::Config,
    /// Prefixes of encoder and decoder; `None` when the file does not have it.
    pub encoder: Option<&'static str>,
    pub decoder: Option<&'static str>,
}

/// One chunk of a video, or a batch of images (`frames` = 1, `first`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub batch: usize,
    /// Frames of the input: latent frames to decode, video frames to encode.
    pub frames: usize,
    pub height: usize,
    pub width: usize,
    /// Whether this is the first chunk of the video.
    pub first: bool,
    /// Which frames the layers of a video model process at once.
    pub at_once: Frames,
}

/// Which frames of a chunk the layers of a video model process at once. Image models have one
/// frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// All of them: fewer, larger ops.
    Together,
    /// One after the other, each with the frames of its convolution's window: the same values with
    /// a fraction of the memory.
    Apart,
    /// One after the other, with convolutions over frames as sums over them: no op needs several
    /// frames at once. It needs the least memory, for devices whose bindings are smaller than a
    /// window of frames.
    Alone,
}

impl Frames {
    /// Whether layers run on one frame after the other.
    fn by_frame(self) -> bool {
        self != Frames::Together
    }
}

/// Storage of activations and weights.
pub struct Storage<'a> {
    pub activations: DType,
    /// The storage type of a weight, by its name.
    pub weights: &'a dyn Fn(&str) -> DType,
    /// AutoencoderKL only: scale of the residual stream, for f16 ([`kl::Scale`]).
    pub scale: kl::Scale,
}

/// A graph with its inputs and outputs. Images are `[b, h, w, c]`, videos `[b, t, h, w, c]`.
#[derive(Clone, Debug)]
pub struct Recording {
    pub graph: Graph,
    pub input: Node,
    pub output: Node,
    /// Mean and deviation of each channel of the output, `[b, c, 2]`. The mean is finite only if
    /// every value is, so it detects overflows on the device.
    pub check: Node,
    /// Frames cached between chunks; empty for images.
    pub caches: Vec<Cache>,
}

#[derive(Debug, thiserror::Error)]
pub enum VaeError {
    #[error("this autoencoder's file contains no {part}")]
    NoPart { part: &'static str },
    #[error("{what} is {found}; it must be a positive multiple of {multiple}")]
    Size {
        what: &'static str,
        found: usize,
        multiple: usize,
    },
    #[error("{found} frames given; {wanted}")]
    Frames { found: usize, wanted: String },
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Names [`Vae::spec`] knows.
pub const SPECS: [&str; 15] = [
    "sd-vae",
    "sdxl-vae",
    "sd3-vae",
    "flux-vae",
    "flux2-vae",
    "wan21-vae",
    "wan22-vae",
    "taesd",
    "taesdxl",
    "taesd3",
    "taef1",
    "taef2",
    "taehv",
    "taew2_1",
    "taew2_2",
];

impl Vae {
    /// A built-in description, for planning without a file.
    pub fn spec(name: &str) -> Option<Vae> {
        let tiny = |latent_channels| Vae::Taesd(Taesd::whole(latent_channels));
        Some(match name {
            "sd-vae" | "sdxl-vae" => Vae::Kl(kl::Config::sd()),
            "sd3-vae" | "flux-vae" => Vae::Kl(kl::Config::flux()),
            "flux2-vae" => Vae::Kl(kl::Config::flux2()),
            "wan21-vae" => Vae::Wan(wan::Config::wan21()),
            "wan22-vae" => Vae::Wan(wan::Config::wan22()),
            "taesd" | "taesdxl" => tiny(4),
            "taesd3" | "taef1" => tiny(16),
            "taef2" => tiny(32),
            "taehv" | "taew2_1" => Vae::Taehv(taehv::Config::hunyuan()),
            "taew2_2" => Vae::Taehv(taehv::Config::wan22()),
            _ => return None,
        })
    }

    /// Reads architecture and sizes from tensor shapes; `None` when this is no known autoencoder.
    pub fn detect(find: &Find) -> Option<Vae> {
        kl::Config::detect(find)
            .map(Vae::Kl)
            .or_else(|| wan::Config::detect(find).map(Vae::Wan))
            .or_else(|| taehv::Config::detect(find).map(Vae::Taehv))
            .or_else(|| Taesd::detect(find).map(Vae::Taesd))
    }

    pub fn latent_channels(&self) -> usize {
        match self {
            Vae::Kl(c) => c.z_channels,
            Vae::Taesd(t) => t.config.latent_channels,
            Vae::Wan(c) => c.z_dim,
            Vae::Taehv(c) => c.latent_channels,
        }
    }

    /// Pixels per latent pixel along one side.
    pub fn scale(&self) -> usize {
        match self {
            Vae::Kl(c) => c.scale(),
            Vae::Taesd(_) => 8,
            Vae::Wan(c) => c.scale(),
            Vae::Taehv(c) => c.scale(),
        }
    }

    /// Frames per latent frame after the first; `None` for images.
    pub fn time_scale(&self) -> Option<usize> {
        match self {
            Vae::Kl(_) | Vae::Taesd(_) => None,
            Vae::Wan(c) => Some(c.time_scale()),
            Vae::Taehv(c) => Some(c.time_scale()),
        }
    }

    /// Frames of a full video of `n` latent frames.
    pub fn n_frames(&self, n: usize) -> usize {
        match self.time_scale() {
            Some(scale) => (n * scale).saturating_sub(scale - 1),
            None => n,
        }
    }

    /// Whether its latents are in the diffusion model's units instead of the full VAE's.
    pub fn in_model_units(&self) -> bool {
        matches!(self, Vae::Taesd(_) | Vae::Taehv(_))
    }

    /// Records the decoder: latents to images.
    pub fn decode(&self, chunk: Chunk, storage: &Storage) -> Result<Recording, VaeError> {
        self.check(chunk, 1, [1, 1])?;
        self.record(chunk, storage, self.latent_channels(), |g, p, s, z| {
            let minus_one_to_one = match self {
                Vae::Kl(c) => kl::decoder(g, p, c, storage.scale, z),
                Vae::Wan(c) => wan::decoder(g, p, c, s, chunk.at_once.by_frame(), z),
                Vae::Taesd(t) => {
                    let p = part(p, t.decoder, "decoder")?;
                    return Ok(taesd::decoder(g, &p, &t.config, z));
                }
                Vae::Taehv(c) => return Ok(taehv::decoder(g, p, c, s, z)),
            };
            Ok(g.affine(minus_one_to_one, 0.5, 0.5))
        })
    }

    /// Records the encoder: images to latents, the mean of the distribution where there is one.
    pub fn encode(&self, chunk: Chunk, storage: &Storage) -> Result<Recording, VaeError> {
        let time = match (self, self.time_scale()) {
            (Vae::Wan(_), Some(n)) => [n, usize::from(chunk.first)],
            (_, Some(n)) => [n, 0],
            (_, None) => [1, 0],
        };
        self.check(chunk, self.scale(), time)?;
        self.record(chunk, storage, 3, |g, p, s, x| {
            let moments = match self {
                Vae::Kl(c) => {
                    let x = g.affine(x, 2.0, -1.0);
                    kl::encoder(g, p, c, storage.scale, x)
                }
                Vae::Wan(c) => {
                    let x = g.affine(x, 2.0, -1.0);
                    wan::encoder(g, p, c, s, chunk.at_once.by_frame(), x)
                }
                Vae::Taesd(t) => {
                    let p = part(p, t.encoder, "encoder")?;
                    return Ok(taesd::encoder(g, &p, &t.config, x));
                }
                Vae::Taehv(c) => return Ok(taehv::encoder(g, p, c, s, x)),
            };
            let axis = g.shape(moments).rank() - 1;
            Ok(g.slice(moments, axis, 0, self.latent_channels()))
        })
    }

    /// Checks the sizes of a chunk. `time` is `[n, more]`: the number of frames must be a multiple
    /// of `n` plus `more`.
    fn check(&self, chunk: Chunk, multiple: usize, time: [usize; 2]) -> Result<(), VaeError> {
        for (what, found, multiple) in [
            ("batch", chunk.batch, 1),
            ("height", chunk.height, multiple),
            ("width", chunk.width, multiple),
        ] {
            if found == 0 || !found.is_multiple_of(multiple) {
                return Err(VaeError::Size {
                    what,
                    found,
                    multiple,
                });
            }
        }
        let wanted = match (self.time_scale(), time) {
            (None, _) if chunk.frames != 1 => "an image has one".to_owned(),
            (_, [_, more]) if chunk.frames < more.max(1) => "at least one is needed".to_owned(),
            (_, [n, more]) if !(chunk.frames - more).is_multiple_of(n) => {
                format!("this chunk takes a multiple of {n} and {more} more")
            }
            _ => return Ok(()),
        };
        Err(VaeError::Frames {
            found: chunk.frames,
            wanted,
        })
    }

    fn record(
        &self,
        chunk: Chunk,
        storage: &Storage,
        channels: usize,
        body: impl FnOnce(&mut Graph, &Params, &mut Stream, Node) -> Result<Node, VaeError>,
    ) -> Result<Recording, VaeError> {
        let Chunk {
            batch: b,
            frames: t,
            height: h,
            width: w,
            ..
        } = chunk;
        let shape = match self.time_scale() {
            Some(_) => Shape::from([b, t, h, w, channels]),
            None => Shape::from([b, h, w, channels]),
        };
        let mut graph = Graph::new();
        let input = graph.input("x", shape, storage.activations);
        let mut stream = Stream::new(chunk.first);
        let params = Params::new(storage.weights).by_tap(chunk.at_once == Frames::Alone);
        let output = body(&mut graph, &params, &mut stream, input)?;
        graph.output(output);
        let check = graph.push(Op::Stats(Stats {
            x: output,
            over: Over::Groups(graph.shape(output).last_dim()),
            kind: NormKind::Layer,
            eps: 1.0,
        }));
        graph.output(check);
        let caches = stream.finish(&mut graph);
        Ok(Recording {
            graph: graph.finish()?,
            input,
            output,
            check,
            caches,
        })
    }
}

impl Taesd {
    /// A published one, with encoder and decoder in one file.
    pub fn whole(latent_channels: usize) -> Taesd {
        Taesd {
            config: taesd::Config::new(latent_channels),
            encoder: Some("encoder"),
            decoder: Some("decoder"),
        }
    }

    fn detect(find: &Find) -> Option<Taesd> {
        let below = |prefix: &'static str| {
            move |name: &str| match prefix {
                "" => find(name),
                _ => find(&format!("{prefix}.{name}")),
            }
        };
        let half = |prefixes: [&'static str; 3], detect: fn(&Find) -> Option<taesd::Config>| {
            prefixes
                .into_iter()
                .find_map(|p| detect(&below(p)).map(|config| (p, config)))
        };
        let decoder = half(
            ["", "decoder", "taesd_decoder"],
            taesd::Config::detect_decoder,
        );
        let encoder = half(
            ["", "encoder", "taesd_encoder"],
            taesd::Config::detect_encoder,
        );
        Some(Taesd {
            encoder: encoder.as_ref().map(|(p, _)| *p),
            decoder: decoder.as_ref().map(|(p, _)| *p),
            config: decoder.or(encoder)?.1,
        })
    }
}

fn part<'p>(
    p: &Params<'p>,
    prefix: Option<&str>,
    part: &'static str,
) -> Result<Params<'p>, VaeError> {
    match prefix {
        None => Err(VaeError::NoPart { part }),
        Some("") => Ok(p.clone()),
        Some(prefix) => Ok(p.at(prefix)),
    }
}

#[cfg(test)]
mod tests;
