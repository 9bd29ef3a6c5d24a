//! Opens one network of a file: its hyperparameters, and its weights if every tensor fits them. It
//! is the only way from a file to parameters, so a damaged file is one error before anything is
//! loaded.

use crate::describe::{self, DescribeError};
use crate::detect::{self, Kind};
use crate::difference::Difference;
use crate::weights::find_in;
use crate::{FileParams, Network, Vae};
use nino_weights::names::{Component, Net};
use nino_weights::{Entry, TensorReader};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The error for tensors that do not fit a network. It lists all of them.
#[derive(Debug)]
pub struct Misfits {
    pub file: PathBuf,
    pub net: Net,
    /// The known model that `difference` compares with; `None` where the hyperparameters read from
    /// the file differ less.
    pub closest: Option<Kind>,
    pub difference: Difference,
    /// Why no network can be recorded with the hyperparameters read from the file.
    pub sizes: Option<DescribeError>,
}

/// A network of a file: its hyperparameters, and weights that fit them.
#[derive(Clone, Debug)]
pub struct Opened {
    pub network: Network,
    pub params: FileParams,
    /// Which of `encoder` and `decoder` an autoencoder's file has.
    pub halves: Vec<&'static str>,
}

/// The same for an autoencoder.
#[derive(Clone, Debug)]
pub struct OpenedVae {
    pub vae: Vae,
    pub params: FileParams,
    pub halves: Vec<&'static str>,
}

/// Opens the network of a component; `None` when this crate has no model of it.
pub fn open(
    reader: &Arc<TensorReader>,
    component: Component,
) -> Result<Option<Opened>, Box<Misfits>> {
    let net = component.net;
    if !Network::is_supported(net) {
        return Ok(None);
    }
    let network = Network::detect(net, &|name: &str| find_in(&component.index, name));
    let (own, sizes) = match network.as_ref().map(describe::tensors).transpose() {
        Ok(tensors) => (tensors.map(|t| Difference::between(&component, &t)), None),
        Err(error) => (None, Some(error)),
    };
    if let (Some(network), Some(fits)) = (network, own.as_ref().filter(|d| d.is_empty())) {
        return Ok(Some(Opened {
            network,
            params: FileParams::of(reader, component.index),
            halves: fits.halves.clone(),
        }));
    }
    // The damaged tensors may be those that determine the hyperparameters. The difference to a
    // known model is then the better report.
    let closest = detect::closest(&component).filter(|(_, d)| !d.is_empty());
    let (closest, difference) = match (own, closest) {
        (Some(own), Some((_, other))) if own.count() <= other.count() => (None, own),
        (_, Some((kind, other))) => (Some(kind), other),
        (Some(own), None) => (None, own),
        // All tensors fit a known model, but those that determine the hyperparameters are missing.
        (None, None) => return Ok(None),
    };
    Err(Box::new(Misfits {
        file: reader.index().files.first().cloned().unwrap_or_default(),
        net,
        closest,
        difference,
        sizes,
    }))
}

/// Opens the autoencoder among the components of a file; `None` when there is none. Encoder and
/// decoder of a tiny autoencoder may be two components.
pub fn open_vae(
    reader: &Arc<TensorReader>,
    components: Vec<Component>,
) -> Result<Option<OpenedVae>, Box<Misfits>> {
    let is_vae = |net| matches!(net, Net::KlVae | Net::WanVae | Net::Taesd | Net::Taehv);
    let mut components = components.into_iter().filter(|c| is_vae(c.net));
    let Some(mut whole) = components.next() else {
        return Ok(None);
    };
    let mut entries: Vec<Entry> = whole.index.entries().to_vec();
    for half in components.filter(|c| c.net == whole.net) {
        entries.extend_from_slice(half.index.entries());
        whole.unmapped.extend(half.unmapped);
    }
    whole.index = whole.index.with_entries(entries);
    let opened = open(reader, whole)?;
    Ok(opened.and_then(|opened| match opened.network {
        Network::Vae(vae) => Some(OpenedVae {
            vae,
            params: opened.params,
            halves: opened.halves,
        }),
        Network::Denoiser(_)
        | Network::ControlNet(_)
        | Network::ClipText(_)
        | Network::ClipVision(_)
        | Network::QwenVision(_)
        | Network::Qwen3Vision(_)
        | Network::Redux(_)
        | Network::Uso(_)
        | Network::T5(_)
        | Network::Llm(_)
        | Network::Upscaler(_)
        | Network::Wav2Vec2(_) => None,
    }))
}

impl std::error::Error for Misfits {}

impl fmt::Display for Misfits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            missing,
            unknown,
            misshaped,
            ..
        } = &self.difference;
        write!(
            f,
            "{}: the tensors of its {} ",
            self.file.display(),
            name(self.net)
        )?;
        match self.closest {
            Some(kind) => write!(f, "are not those of {}", kind.label())?,
            None => write!(f, "do not fit together")?,
        }
        let misshaped: Vec<String> = misshaped
            .iter()
            .map(|m| format!("{} is {:?} instead of {:?}", m.name, m.found, m.expected))
            .collect();
        let mut mark = ": ";
        for (what, names) in [
            ("missing", missing),
            ("mis-shaped", &misshaped),
            ("unknown", unknown),
        ] {
            if !names.is_empty() {
                write!(f, "{mark}{} {what} ({})", names.len(), first_of(names))?;
                mark = "; ";
            }
        }
        match &self.sizes {
            Some(error) => write!(f, "{mark}{error}"),
            None => Ok(()),
        }
    }
}

/// The name of a network in messages.
fn name(net: Net) -> &'static str {
    match net {
        Net::Unet => "UNet",
        Net::ControlNet => "ControlNet",
        Net::T2iAdapter => "T2I adapter",
        Net::Flux | Net::Wan | Net::ZImage | Net::QwenImage | Net::Krea2 | Net::Anima => {
            "transformer"
        }
        Net::KlVae | Net::WanVae | Net::Taesd | Net::Taehv => "VAE",
        Net::ClipText | Net::T5 | Net::Llm => "text encoder",
        Net::ClipVision | Net::QwenVision | Net::Qwen3Vision => "image encoder",
        Net::Redux => "style model",
        Net::Rrdb | Net::Srvgg => "upscaler",
        Net::Wav2Vec2 => "audio encoder",
    }
}

/// The first few names: a file of another network would flood the terminal with all of them.
fn first_of(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}
