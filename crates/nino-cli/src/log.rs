//! Where `tracing` goes: standard error, warnings only unless asked for more.

use crate::env::Env;
use crate::failure::Usage;
use anyhow::Result;
use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// `NINO_LOG` wins over `-v`; it has the syntax of `RUST_LOG` (`debug`, `nino_gpu=trace`).
pub(crate) fn install(verbose: u8, env: &Env) -> Result<()> {
    let level = match verbose {
        0 => "warn",
        1 => {
            "warn,nino=debug,nino_graph=debug,nino_cpu=debug,nino_gpu=debug,nino_weights=debug,nino_suite=debug,nino_engine=debug,nino_hub=debug"
        }
        _ => {
            "info,nino=trace,nino_graph=trace,nino_cpu=trace,nino_gpu=trace,nino_weights=trace,nino_suite=trace,nino_engine=trace,nino_hub=trace"
        }
    };
    let filter = match &env.log {
        Some(text) => EnvFilter::try_new(text)
            .map_err(|e| Usage(format!("NINO_LOG={text:?} is not a log filter: {e}")))?,
        None => EnvFilter::new(level),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && !env.no_color)
        .without_time()
        .finish()
        .with(filter_fn(|meta| !shows_requests(meta.target())))
        .init();
    Ok(())
}

/// Crates whose log has whole requests in it, and so access tokens; no `NINO_LOG` turns it on.
fn shows_requests(target: &str) -> bool {
    let names = ["ureq", "ureq_proto", "rustls"];
    names.contains(&target.split("::").next().unwrap_or(target))
}
