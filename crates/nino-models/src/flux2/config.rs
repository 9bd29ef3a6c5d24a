//! Hyperparameters of Flux.2.

use crate::Find;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Channels of the latent.
    pub channels: usize,
    /// Width of a token.
    pub hidden: usize,
    /// Head dimension.
    pub head: usize,
    /// Width of an MLP after its gate.
    pub mlp: usize,
    /// Width of the text embeddings.
    pub context_dim: usize,
    /// Number of double stream blocks.
    pub depth: usize,
    /// Number of single stream blocks.
    pub depth_single: usize,
    /// Whether it has a guidance embedding.
    pub guidance: bool,
}

impl Config {
    pub fn klein_4b() -> Config {
        Config {
            channels: 128,
            hidden: 3072,
            head: 128,
            mlp: 9216,
            context_dim: 7680,
            depth: 5,
            depth_single: 20,
            guidance: false,
        }
    }

    pub fn klein_9b() -> Config {
        Config {
            hidden: 4096,
            mlp: 12288,
            context_dim: 12288,
            depth: 8,
            depth_single: 24,
            ..Config::klein_4b()
        }
    }

    pub fn dev() -> Config {
        Config {
            hidden: 6144,
            mlp: 18432,
            context_dim: 15360,
            depth: 8,
            depth_single: 48,
            guidance: true,
            ..Config::klein_4b()
        }
    }

    pub fn heads(&self) -> usize {
        self.hidden / self.head.max(1)
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not Flux.2.
    pub fn detect(find: &Find) -> Option<Config> {
        let matrix = |name: &str| match *find(name)?.0 {
            [rows, columns] => Some((rows, columns)),
            _ => None,
        };
        let count = |name: &dyn Fn(usize) -> String| {
            let exists = |&i: &usize| find(&name(i)).is_some();
            (0..256).take_while(exists).count()
        };
        matrix("double_stream_modulation_img.lin.weight")?;
        let (hidden, channels) = matrix("img_in.weight")?;
        let (_, context_dim) = matrix("txt_in.weight")?;
        let (_, mlp) = matrix("double_blocks.0.img_mlp.2.weight")?;
        let [head] = *find("double_blocks.0.img_attn.norm.query_norm.scale")?.0 else {
            return None;
        };
        let config = Config {
            channels,
            hidden,
            head,
            mlp,
            context_dim,
            depth: count(&|i| format!("double_blocks.{i}.img_attn.qkv.weight")),
            depth_single: count(&|i| format!("single_blocks.{i}.linear1.weight")),
            guidance: find("guidance_in.in_layer.weight").is_some(),
        };
        // The four RoPE axes have equal shares of the head dimension.
        let fits = head > 0 && head.is_multiple_of(8) && hidden.is_multiple_of(head);
        (fits && channels > 0).then_some(config)
    }
}
