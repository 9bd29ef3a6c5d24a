//! What a server is told when it starts.

use nino_engine::Library;
use nino_engine::device::Opened;
use nino_hub::HubOptions;
use nino_workflow::Settings;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What a server is told when it starts. Nothing of it is read from the environment.
pub struct Config {
    pub listen: SocketAddr,
    /// What requests have to carry, as `Authorization: Bearer`, a cookie or `?token=`.
    pub token: Option<String>,
    /// Names beside its own addresses under which browsers may reach the server.
    pub hosts: Vec<String>,
    /// Other sites whose pages may call the server, as browsers write origins.
    pub origins: Vec<String>,
    pub place: Place,
    pub library: Library,
    /// Where models are downloaded from and to; `None` where they cannot be.
    pub downloads: Option<HubOptions>,
    /// The devices that take jobs, by turns.
    pub devices: Vec<Opened>,
    /// How graphs are run.
    pub settings: Settings,
    /// The static files of ComfyUI's own page, served below `/comfy/`.
    pub front_end: Option<PathBuf>,
    /// The most bytes of one request.
    pub max_upload: usize,
    /// Idle models are given back after this time; kept for ever where it is `None`.
    pub keep_alive: Option<Duration>,
    /// How long a job may still run after the server was asked to stop.
    pub grace: Duration,
    /// What the program calls itself, such as `0.1.0`.
    pub version: &'static str,
}

/// The folders that the server reads and writes.
#[derive(Clone, Debug)]
pub struct Place {
    /// Holds `input`, `output`, `temp` and `user`.
    pub data: PathBuf,
    /// Where the built-in model is unpacked.
    pub cache: PathBuf,
}
