//! A hint names only flags that the verb has, for every kind of error and every verb.

use super::of;
use crate::args::{VerbFlags, grammar};
use clap::Command;
use nino_engine::device::GpuError;
use nino_engine::{DeviceError, Encoder, EngineError, ErrorKind, LATENT_FORMATS, LibraryError};
use nino_graph::{ExecError, PlanError};
use nino_suite::RunError;
use std::collections::BTreeSet;
use std::error::Error;
use std::path::PathBuf;

fn text() -> String {
    "x".to_owned()
}

fn path() -> PathBuf {
    PathBuf::from("x")
}

/// Errors of the engine, with every one that has a hint.
fn engine_errors() -> Vec<EngineError> {
    let exec = [
        ExecError::OutOfMemory {
            what: text(),
            wanted: 9 << 30,
            free: Some(3 << 30),
        },
        ExecError::OutOfMemory {
            what: text(),
            wanted: 2,
            free: None,
        },
        ExecError::HostMemory { wanted: 2, free: 1 },
        ExecError::Disk {
            folder: text(),
            wanted: 2,
            free: None,
        },
        ExecError::DeviceLost { reason: text() },
        ExecError::Unsupported {
            op: text(),
            device: text(),
            why: text(),
        },
    ];
    let plan = [
        PlanError::OverBudget {
            need: 5 << 20,
            weights: 1,
            arena: 1,
            op: text(),
            outside_plans: 0,
            budget: 1,
        },
        PlanError::BindingTooLarge {
            op: text(),
            bytes: 2,
            limit: 1,
        },
        PlanError::ValueTooLarge {
            op: text(),
            bytes: 2,
            page: 1,
        },
    ];
    let gpu = [
        GpuError::NoAdapter {
            reason: "only software adapters found (0 llvmpipe)".to_owned(),
        },
        GpuError::NoSuchAdapter {
            wanted: text(),
            found: vec![],
        },
        GpuError::NoSuchTier {
            adapter: text(),
            wanted: "coop",
            available: vec![],
        },
        GpuError::DeviceLost { reason: text() },
        GpuError::OutOfMemory {
            what: text(),
            wanted: 2,
            free: Some(1),
        },
    ];
    let mut all: Vec<EngineError> = exec.into_iter().map(EngineError::Exec).collect();
    all.extend(plan.into_iter().map(EngineError::Plan));
    all.extend(gpu.map(|e| EngineError::Device(DeviceError::Gpu(e))));
    all.extend([16, 128, 4, 7].map(|found| EngineError::Channels { expected: 8, found }));
    all.extend([
        EngineError::Cancelled,
        EngineError::FileChanged { path: path() },
        EngineError::NoPrompt,
        EngineError::Busy {
            need: 1,
            busy: 1,
            capacity: 1,
        },
        EngineError::Exec(ExecError::NotInPlan { what: text() }),
        EngineError::NotFinite {
            dtype: nino_dtype::DType::F16,
        },
        EngineError::NoFormat { vae: text() },
        EngineError::FormatChannels {
            format: &LATENT_FORMATS[0],
            vae: text(),
            channels: LATENT_FORMATS[0].unpacked_channels(),
        },
        EngineError::Encoders {
            path: path(),
            family: "SDXL",
            wanted: vec![Encoder::Clip(768), Encoder::Clip(1280)],
            found: vec![Encoder::Clip(768)],
        },
        EngineError::Encoders {
            path: path(),
            family: "SDXL",
            wanted: vec![Encoder::Clip(768)],
            found: vec![Encoder::Clip(768), Encoder::Clip(1280)],
        },
        EngineError::NotAnEncoder { path: path() },
        EngineError::MissingVae {
            path: path(),
            family: "SDXL",
        },
        EngineError::NoUnet {
            path: path(),
            found: vec![],
        },
        EngineError::NoPart {
            vae: text(),
            part: "encoder",
        },
        EngineError::LatentNotFinite {
            path: path(),
            bad: 1,
            all: 2,
        },
        EngineError::LoraFamily {
            path: path(),
            made_for: "SDXL",
            model: text(),
            misfits: 1,
            all: 1,
            example: text(),
        },
    ]);
    all
}

/// Every command that does something, by its words.
fn verbs(command: &Command, words: &str, found: &mut Vec<(String, VerbFlags)>) {
    if !command.has_subcommands() {
        found.push((words.to_owned(), VerbFlags::of(command)));
    }
    for below in command.get_subcommands() {
        verbs(below, &format!("{words} {}", below.get_name()), found);
    }
}

#[test]
fn a_hint_names_only_flags_that_the_verb_has() {
    let errors = engine_errors();
    let kinds: BTreeSet<&str> = errors.iter().map(|e| e.kind().name()).collect();
    for kind in [
        ErrorKind::Cancelled,
        ErrorKind::File,
        ErrorKind::FileChanged,
        ErrorKind::Mismatch,
        ErrorKind::Request,
        ErrorKind::OverBudget,
        ErrorKind::Busy,
        ErrorKind::OutOfMemory,
        ErrorKind::DeviceLost,
        ErrorKind::Device,
        ErrorKind::Unsupported,
        ErrorKind::NotFinite,
        ErrorKind::Internal,
    ] {
        assert!(kinds.contains(kind.name()), "no case of {}", kind.name());
    }
    let unknown = LibraryError::Unknown {
        kind: "model",
        name: text(),
        places: vec![],
        near: vec![],
    };
    let run = RunError::Exec(ExecError::DeviceLost { reason: text() });
    let mut all: Vec<&(dyn Error + 'static)> = vec![&unknown, &run];
    all.extend(errors.iter().map(|e| e as &(dyn Error + 'static)));
    let mut grammar = grammar();
    grammar.build();
    let mut found = Vec::new();
    verbs(&grammar, "nino", &mut found);
    assert!(found.len() > 8, "{found:?}");
    for (words, flags) in &found {
        for error in &all {
            let hint = of(*error, flags).unwrap_or_default();
            assert!(flags.has_all(&hint), "{words}: {error}: {hint}");
        }
    }
}

fn hint(verb: &[&str], error: &EngineError) -> Option<String> {
    let mut command = grammar();
    command.build();
    let command = verb.iter().fold(&command, |command, name| {
        command.find_subcommand(name).expect("a verb")
    });
    of(error, &VerbFlags::of(command))
}

#[test]
fn what_a_gpu_cannot_do_at_once_has_the_ways_of_the_verb() {
    let unsupported = || {
        EngineError::Exec(ExecError::Unsupported {
            op: "conv".to_owned(),
            device: "a card".to_owned(),
            why: "4294967296 values".to_owned(),
        })
    };
    let decode = hint(&["decode"], &unsupported()).unwrap();
    assert_eq!(
        decode,
        "decode in tiles: --tile fast, or use --device cpu, which has no such limit"
    );
    let generate = hint(&["generate"], &unsupported()).unwrap();
    assert_eq!(generate, "use --device cpu, which has no such limit");
    assert_eq!(hint(&["inspect"], &unsupported()), None);
}

#[test]
fn a_smaller_budget_is_what_is_free() {
    let error = EngineError::Exec(ExecError::OutOfMemory {
        what: text(),
        wanted: 9 << 30,
        free: Some((2 << 30) - 1),
    });
    let hint = hint(&["generate"], &error).unwrap();
    assert!(hint.ends_with("plan for less: --budget 1.9GiB"), "{hint}");
}
