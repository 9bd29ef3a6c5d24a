//! Where `tracing` goes: standard error, warnings only unless asked for more.
//!
//! Users see what was decided (`-v`) and what was run (`-vv`) in plain lines; developers see
//! everything, with the place it comes from (`-vvv` or `NINO_LOG`). A server's log can be lines of
//! JSON with their time, for programs that collect logs.

use crate::env::Env;
use crate::failure::Usage;
use anyhow::Result;
use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// `NINO_LOG` wins over `-v`; it has the syntax of `RUST_LOG` (`debug`, `nino_gpu=trace`).
pub(crate) fn install(verbose: u8, as_json: bool, env: &Env) -> Result<()> {
    let level = match verbose {
        0 => "warn",
        1 => "warn,nino=info",
        2 => "warn,nino=info,nino_engine::ops=trace",
        _ => "info,nino=trace",
    };
    let filter = match &env.log {
        Some(text) => EnvFilter::try_new(text)
            .map_err(|e| Usage(format!("NINO_LOG={text:?} is not a log filter: {e}")))?,
        None => EnvFilter::new(level),
    };
    let for_developers = env.log.is_some() || verbose > 2;
    let base = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    let without_requests = filter_fn(|meta| !shows_requests(meta.target()));
    if as_json {
        base.json().finish().with(without_requests).init();
        return Ok(());
    }
    base.with_ansi(io::stderr().is_terminal() && !env.no_color)
        .with_target(for_developers)
        .without_time()
        .finish()
        .with(without_requests)
        .init();
    Ok(())
}

/// Crates whose log has whole requests in it, and so access tokens; no `NINO_LOG` turns it on.
fn shows_requests(target: &str) -> bool {
    let names = ["ureq", "ureq_proto", "rustls"];
    names.contains(&target.split("::").next().unwrap_or(target))
}
