//! Opening, failing, losing: ordinary events with typed errors and a usable process afterwards.

use crate::{adapters, devices};
use nino_gpu::{AdapterKind, Gpu, GpuError, OpenOptions, Tier};

#[test]
fn gpu_names_that_match_nothing_are_errors() {
    let adapters = adapters();
    let open = |adapter: &str, tier| {
        let options = OpenOptions {
            adapter: adapter.to_owned(),
            tier,
            ..OpenOptions::default()
        };
        Gpu::open_in(&adapters, &options).map(|g| g.info.name)
    };
    assert!(matches!(
        "fast".parse::<Tier>(),
        Err(GpuError::UnknownTier { .. })
    ));
    match (adapters.infos.first(), open("no such card", None)) {
        (None, found) => assert!(
            matches!(found, Err(GpuError::NoAdapter { .. })),
            "{found:?}"
        ),
        (Some(_), found) => {
            assert!(
                matches!(found, Err(GpuError::NoSuchAdapter { .. })),
                "{found:?}"
            );
        }
    }
    if adapters
        .infos
        .iter()
        .all(|a| a.kind == AdapterKind::Software)
    {
        let auto = open("auto", None);
        assert!(
            matches!(auto, Err(GpuError::NoAdapter { .. })),
            "software only when named: {auto:?}"
        );
    }
    for info in adapters.infos.iter().filter(|a| a.coop_size.is_none()) {
        let coop = open(&info.index.to_string(), Some(Tier::Coop));
        assert!(matches!(coop, Err(GpuError::NoSuchTier { .. })), "{coop:?}");
    }
}

#[test]
fn gpu_allocations_that_cannot_be_are_errors() {
    for device in devices(None) {
        let gpu = device.gpu();
        let too_large = gpu
            .buffer("too large", gpu.info.max_buffer_bytes + 1)
            .map(|b| b.size());
        assert!(
            matches!(too_large, Err(GpuError::BindingTooLarge { .. })),
            "{too_large:?}"
        );
        let small = gpu.buffer("small", 64).unwrap();
        gpu.write(&small, 0, &[7; 64]).unwrap();
        assert_eq!(
            gpu.read(&small, 4, 3).unwrap(),
            [7; 3],
            "usable after a refused allocation"
        );
    }
}

#[test]
fn gpu_loss_is_an_error_and_another_device_opens() {
    for device in devices(None) {
        let gpu = device.gpu();
        let buffer = gpu.buffer("kept", 64).unwrap();
        gpu.destroy();
        let read = gpu.read(&buffer, 0, 4);
        assert!(matches!(read, Err(GpuError::DeviceLost { .. })), "{read:?}");
        assert!(gpu.lost().is_some());
        let adapter = gpu.info.index.to_string();
        let again = Gpu::open(&OpenOptions {
            adapter,
            ..OpenOptions::default()
        })
        .unwrap();
        let buffer = again.buffer("new", 64).unwrap();
        again.write(&buffer, 0, &[3; 8]).unwrap();
        assert_eq!(again.read(&buffer, 0, 8).unwrap(), [3; 8]);
    }
}

#[test]
fn gpu_damaged_pipeline_cache_is_ignored() {
    let dir = std::env::temp_dir().join(format!("nino-gpu-cache-{}", std::process::id()));
    for info in adapters().infos {
        let open = || {
            let adapter = info.index.to_string();
            Gpu::open(&OpenOptions {
                adapter,
                cache_dir: Some(dir.clone()),
                ..OpenOptions::default()
            })
            .unwrap()
        };
        let gpu = open();
        gpu.roofline(1 << 16).unwrap();
        gpu.save_pipelines();
        let files: Vec<_> = std::fs::read_dir(&dir)
            .into_iter()
            .flatten()
            .flatten()
            .collect();
        assert_eq!(files.is_empty(), !info.pipeline_cache);
        for file in files {
            std::fs::write(file.path(), b"not a cache").unwrap();
        }
        open().roofline(1 << 16).unwrap();
    }
    let _ = std::fs::remove_dir_all(&dir);
}
