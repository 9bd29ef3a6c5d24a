//! Random streams equal to PyTorch's, so that a seed names the same picture here and there.

mod mt19937;
mod philox;
mod seed_sequence;
mod torch;

pub use mt19937::Mt19937;
pub use philox::Philox;
pub use seed_sequence::generate as seed_sequence;
pub use torch::TorchCpu;

/// Which of torch's streams; the name goes into image metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rng {
    /// `torch.randn` on the CPU: what ComfyUI uses for initial noise.
    #[default]
    Torch,
    /// `torch.randn` on a CUDA device: A1111's "GPU" and "NV".
    Philox,
}

impl Rng {
    pub const NAMES: [&'static str; 2] = ["torch", "philox"];

    pub fn name(self) -> &'static str {
        match self {
            Self::Torch => "torch",
            Self::Philox => "philox",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "torch" => Some(Self::Torch),
            "philox" => Some(Self::Philox),
            _ => None,
        }
    }

    pub fn generator(self, seed: u64) -> Generator {
        match self {
            Self::Torch => Generator::Torch(Box::new(TorchCpu::new(seed))),
            Self::Philox => Generator::Philox(Philox::new(seed)),
        }
    }
}

/// A seeded stream of standard normals.
#[derive(Clone)]
pub enum Generator {
    Torch(Box<TorchCpu>),
    Philox(Philox),
}

impl Generator {
    /// Fills `out` as one call of `torch.randn` would; where calls begin matters to the stream.
    pub fn randn(&mut self, out: &mut [f32]) {
        match self {
            Self::Torch(g) => g.randn(out),
            Self::Philox(g) => g.randn(out),
        }
    }
}
