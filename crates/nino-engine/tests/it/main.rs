//! The engine on the CPU: whole requests against goldens.

// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

mod allocations;
mod carry;
mod decode;
mod emoji;
mod encode;
mod examples;
mod finite;
mod gpu;
mod image;
mod lora;
mod parts;
mod recover;
mod stopped;
mod watched;

use nino_cpu::{Cpu, CpuOptions};
use nino_engine::{Control, Event, Store, VaeFile};
use nino_graph::Device;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn cpu() -> Cpu {
    Cpu::new(CpuOptions::default()).unwrap()
}

/// A store that keeps nothing from one stage to the next.
pub(crate) fn store(device: impl Device + 'static) -> Store {
    Store::keeping_nothing(Arc::new(device))
}

/// A VAE, with the folder of its file where the test wrote that itself.
pub(crate) struct TestVae {
    file: VaeFile,
    _folder: Option<tempfile::TempDir>,
}

impl TestVae {
    /// A VAE whose file goes when it does.
    pub(crate) fn temporary(file: VaeFile, folder: tempfile::TempDir) -> TestVae {
        TestVae {
            file,
            _folder: Some(folder),
        }
    }
}

impl From<VaeFile> for TestVae {
    fn from(file: VaeFile) -> TestVae {
        TestVae {
            file,
            _folder: None,
        }
    }
}

impl Deref for TestVae {
    type Target = VaeFile;

    fn deref(&self) -> &VaeFile {
        &self.file
    }
}

/// Runs `f` with a control that hears everything and stops nothing.
pub(crate) fn with_control<T>(f: impl FnOnce(&mut Control<'_>) -> T) -> (T, Vec<Event>) {
    let cancel = AtomicBool::new(false);
    let mut events = Vec::new();
    let mut on_event = |event| events.push(event);
    let value = f(&mut Control {
        cancel: &cancel,
        on_event: &mut on_event,
    });
    (value, events)
}

/// Mean squared difference over the mean square of what was expected.
pub(crate) fn nmse(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |v: f32| f64::from(v) * f64::from(v);
    let error: f64 = found.iter().zip(expected).map(|(f, e)| square(f - e)).sum();
    error / expected.iter().map(|&e| square(e)).sum::<f64>()
}
