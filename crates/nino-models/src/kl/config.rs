//! Hyperparameters of an AutoencoderKL, built in or read from tensor names and shapes.

use crate::Find;

/// More than any network has. A damaged file may claim any number, and the size doubles with each
/// level.
const MAX_LEVELS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Channels of each level of the encoder, full resolution first.
    pub encoder: Vec<usize>,
    /// The same for the decoder. Equal to the encoder's, except in Flux.2's small decoder.
    pub decoder: Vec<usize>,
    /// Residual blocks per level of the encoder; the decoder has one more.
    pub n_res_blocks: usize,
    pub z_channels: usize,
    pub quant_conv: QuantConv,
    /// Groups of the group norms.
    pub groups: usize,
}

/// Where the 1×1 convolutions between latent and network are (`quant_conv`, `post_quant_conv`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantConv {
    /// Flux.1, SD3.
    Absent,
    /// At the top level, next to `encoder` and `decoder`: SD 1.x, 2.x, XL.
    Outside,
    /// Below `encoder` and `decoder`: Flux.2.
    Inside,
}

impl Config {
    /// SD 1.x, 2.x and XL.
    pub fn sd() -> Config {
        Config {
            encoder: vec![128, 256, 512, 512],
            decoder: vec![128, 256, 512, 512],
            n_res_blocks: 2,
            z_channels: 4,
            quant_conv: QuantConv::Outside,
            groups: 32,
        }
    }

    /// Flux.1 and SD3.
    pub fn flux() -> Config {
        Config {
            z_channels: 16,
            quant_conv: QuantConv::Absent,
            ..Config::sd()
        }
    }

    /// Flux.2. Its latents are packed 2×2 and normalized by `bn` outside of this network.
    pub fn flux2() -> Config {
        Config {
            z_channels: 32,
            quant_conv: QuantConv::Inside,
            ..Config::sd()
        }
    }

    /// Pixels per latent pixel along one side.
    pub fn scale(&self) -> usize {
        1 << (self.decoder.len() - 1)
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not an AutoencoderKL. Either half
    /// is enough.
    pub fn detect(find: &Find) -> Option<Config> {
        let part = if find("decoder.conv_in.weight").is_some() {
            "decoder"
        } else {
            "encoder"
        };
        let conv = |name: &str| match **find(&format!("{name}.weight")).as_ref().map(|(s, _)| s)? {
            [cout, cin, _, _] => Some((cout, cin)),
            _ => None,
        };
        let block = |blocks: &str, level: usize, i: usize| {
            conv(&format!("{blocks}.{level}.block.{i}.conv1"))
        };
        let widths = |blocks: &str| -> Vec<usize> {
            let levels = (0..MAX_LEVELS).map_while(|level| block(blocks, level, 0));
            levels.map(|b| b.0).collect()
        };
        // If encoder or decoder is missing or incomplete, it is assumed to mirror the other.
        let (encoder, decoder) = match (widths("encoder.down"), widths("decoder.up")) {
            (encoder, decoder) if decoder.is_empty() => (encoder.clone(), encoder),
            (encoder, decoder) if encoder.len() != decoder.len() => (decoder.clone(), decoder),
            widths => widths,
        };
        conv(&format!("{part}.mid.block_1.conv1"))?;
        let decodes = part == "decoder";
        let blocks = if decodes {
            "decoder.up"
        } else {
            "encoder.down"
        };
        let n_blocks = (0..64)
            .take_while(|&i| block(blocks, 0, i).is_some())
            .count();
        let (z_channels, quant) = if decodes {
            (conv("decoder.conv_in")?.1, "post_quant_conv.weight")
        } else {
            (conv("encoder.conv_out")?.0 / 2, "quant_conv.weight")
        };
        (!decoder.is_empty()).then_some(Config {
            n_res_blocks: n_blocks.checked_sub(decodes.into())?,
            z_channels,
            quant_conv: if find(quant).is_some() {
                QuantConv::Outside
            } else if find(&format!("{part}.{quant}")).is_some() {
                QuantConv::Inside
            } else {
                QuantConv::Absent
            },
            groups: 32,
            encoder,
            decoder,
        })
    }
}
