//! The grammar of `nino serve`.

use super::{DeviceArgs, PrecisionArg, ProfileArgs, QuantizeArg, tiers, whole};
use crate::bytes::Bytes;
use crate::device::DeviceName;
use clap::Args;
use nino_engine::Tier;
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Unload idle models after this many seconds; 0 keeps them loaded
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) keep_alive: u64,
    /// Storage type of activations [default: auto]
    #[arg(long, value_name = "MODE")]
    pub(crate) precision: Option<PrecisionArg>,
    /// Quantize unquantized weights of diffusion models and text encoders while they are loaded
    #[arg(long, value_name = "TYPE")]
    pub(crate) quantize: Option<QuantizeArg>,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) folders: ServeFolderArgs,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) devices: ServeDeviceArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkArgs {
    /// Address to listen on; any address other than loopback should have a --token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) listen: IpAddr,
    /// Port to listen on; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 8188)]
    pub(crate) port: u16,
    /// Secret that clients must send: as a Bearer token, or once as ?token= in a browser's URL
    #[arg(long, value_name = "TEXT", value_parser = secret)]
    pub(crate) token: Option<String>,
    /// Host name that browsers may use for the server, besides localhost and IP addresses; may be
    /// repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) host_name: Vec<String>,
    /// Origin of another site that may use the server (CORS); may be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) cors: Vec<String>,
    /// Maximum size of one request, such as an uploaded image
    #[arg(long, value_name = "SIZE", default_value = "100MiB")]
    pub(crate) max_upload: Bytes,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Folders")]
pub(crate) struct ServeFolderArgs {
    /// Folder for input, output, temp and user [default: nino in the user's data folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Static files of ComfyUI's front end, served at /comfy/ [default: those of its Python
    /// package, if installed]
    #[arg(long, value_name = "DIR")]
    pub(crate) front_end_root: Option<PathBuf>,
}

/// As [`DeviceArgs`], with several devices.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct ServeDeviceArgs {
    /// Device: auto, cpu, gpu or gpu:N, or several that share the jobs, such as gpu:0,gpu:1
    #[arg(long, value_name = "DEVICES", value_delimiter = ',')]
    device: Vec<DeviceName>,
    /// Set of kernels to use instead of the best that the GPU supports
    #[arg(long, value_name = "TIER", value_parser = tiers())]
    gpu_tier: Option<Tier>,
    /// Maximum memory to use on each device, such as 3.5GiB or 800MiB
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    budget: Option<Bytes>,
    /// CPU threads to use [default: all cores]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=1024))]
    threads: Option<u16>,
}

impl ServeDeviceArgs {
    /// The flags of each device; one without a name where none is given.
    pub(crate) fn each(&self) -> Vec<DeviceArgs> {
        let of = |device: Option<DeviceName>| DeviceArgs {
            device,
            gpu_tier: self.gpu_tier,
            budget: self.budget,
            threads: self.threads,
        };
        match &self.device[..] {
            [] => vec![of(None)],
            named => named.iter().map(|name| of(Some(*name))).collect(),
        }
    }
}

/// An empty secret is one that everybody has: most likely a variable that is not set.
fn secret(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("the token is empty; leave --token out to have none".to_owned());
    }
    Ok(text.to_owned())
}

const SERVE_EXAMPLES: &str = "\
Examples:
  # A web UI at http://127.0.0.1:8188, with the built-in model
  nino serve
  # For the home network
  nino serve --listen 0.0.0.0 --token \"a long secret\"
  # ComfyUI's front end at /comfy/, from pip's comfyui-frontend-package
  nino serve --front-end-root venv/lib/comfyui_frontend_package/static
  # Two cards, each with a limit
  nino serve --device gpu:0,gpu:1 --budget 7GiB

The server implements ComfyUI's API (POST /prompt, /ws), OpenAI's image API (/v1/images/...) and \
A1111's (/sdapi/v1/...). Ctrl-C or SIGTERM stops it; jobs that wait in the queue run after the \
next start.";
