//! `nino serve`: ComfyUI's dialect and a page over HTTP.

mod front_end;

use crate::args::ServeArgs;
use crate::bytes::Bytes;
use crate::decode::{device_text, precision_of};
use crate::device::{self, Choice};
use crate::env::Env;
use crate::failure::Usage;
use crate::generate::quantize_of;
use crate::interrupt::{self, Keeping};
use crate::printer::{self, Printer};
use crate::version;
use anyhow::Result;
use nino_hub::HubOptions;
use nino_server::{Config, Place, Server};
use nino_workflow::{Limits, Settings};
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a job may still run after the server was asked to stop. The process is ended by force
/// after twice this time.
const GRACE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &ServeArgs, env: &Env, printer: Printer) -> Result<()> {
    let network = &args.network;
    let mut devices = Vec::new();
    let mut choice = None;
    for device in args.devices.each() {
        let chosen = Choice::with_profile(&device, &args.profile, env)?;
        devices.push(device::open(&chosen)?);
        choice = Some(chosen);
    }
    let choice = choice.ok_or_else(|| Usage("--device names no device".to_owned()))?;
    warn(args);
    let front_end = args.folders.front_end_root.clone();
    let front_end = front_end.or_else(|| front_end::find(env));
    let names: Vec<String> = devices.iter().map(device_text).collect();
    let Bytes(max_upload) = network.max_upload;
    let data = args.folders.data.clone().or_else(|| env.data_dir.clone());
    let no_data = || Usage("give --data a folder: the user has no home folder".to_owned());
    let data = data.ok_or_else(no_data)?;
    let server = Server::bind(Config {
        listen: SocketAddr::new(network.listen, network.port),
        token: network.token.clone(),
        hosts: network.host_name.clone(),
        origins: network.cors.clone(),
        place: Place {
            data: data.clone(),
            cache: env.cache_dir.clone().unwrap_or_else(std::env::temp_dir),
        },
        library: env.library(),
        downloads: env.hf_cache.clone().map(|cache| HubOptions {
            endpoint: env.hf_endpoint.clone(),
            token: env.hf_token.clone(),
            cache,
            limits: nino_hub::Limits::default(),
            proxy: true,
        }),
        devices,
        settings: Settings {
            precision: precision_of(args.precision, &choice.settings)?,
            quantize: quantize_of(args.quantize, &choice.settings)?,
            preview: None,
            limits: Limits::of_this_machine(),
        },
        front_end: front_end.clone(),
        max_upload: max_upload as usize,
        keep_alive: (args.keep_alive > 0).then(|| Duration::from_secs(args.keep_alive)),
        grace: GRACE,
        version: version::SHORT,
    })?;
    let token = network.token.as_ref();
    let report = Report {
        url: format!("http://{}/", shown(server.address())),
        with_token: token.is_some(),
        comfyui_page: front_end.is_some(),
        devices: names,
        data: data.display().to_string(),
    };
    printer.text(&report)?;
    printer.document(&report)?;
    let stop = server.stopper();
    std::thread::Builder::new()
        .name("stop".to_owned())
        .spawn(move || {
            while !interrupt::flag().load(Ordering::SeqCst) {
                std::thread::sleep(LOOK_EVERY);
            }
            stop.stop();
        })?;
    let _keeping = Keeping::new();
    Ok(server.run()?)
}

/// Says what is risked.
fn warn(args: &ServeArgs) {
    let network = &args.network;
    if !network.listen.is_loopback() && network.token.is_none() {
        printer::note(&format!(
            "anybody who can reach {} could use this server, read its images and fill its disk: \
             give a --token",
            network.listen
        ));
    }
}

/// The address as a browser of this machine takes it.
fn shown(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

#[derive(Serialize)]
struct Report {
    url: String,
    /// Whether clients have to send a token.
    with_token: bool,
    /// Whether ComfyUI's page is there.
    comfyui_page: bool,
    devices: Vec<String>,
    data: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = if self.with_token { "?token=..." } else { "" };
        writeln!(f, "web UI    {}{token}", self.url)?;
        if self.comfyui_page {
            writeln!(f, "ComfyUI   {}comfy/{token}", self.url)?;
        }
        writeln!(f, "device    {}", self.devices.join("; "))?;
        write!(f, "folder    {}", self.data)
    }
}
