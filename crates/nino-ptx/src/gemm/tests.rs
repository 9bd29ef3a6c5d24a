use super::*;

fn kernels() -> Vec<GemmKernel> {
    let tile = |groups, blocks, bn, bk, stages, per_sm| Tile {
        groups,
        blocks,
        bn,
        bk,
        stages,
        per_sm,
    };
    let window = |frames, upsample, stride| {
        Some(Window {
            size: [frames, 3, 3],
            stride: [1, stride, stride],
            dilation: [1; 2],
            upsample,
        })
    };
    let mut found = Vec::new();
    let tiles = [
        tile(1, 1, 128, 64, 3, 3),
        tile(1, 2, 160, 32, 2, 2),
        tile(2, 1, 256, 64, 4, 1),
        tile(1, 1, 192, 64, 6, 1),
    ];
    for tile in tiles {
        let windows = [
            window(1, 1, 1),
            window(1, 2, 1),
            window(1, 1, 2),
            window(3, 1, 1),
        ];
        for window in [None].into_iter().chain(windows) {
            let around = [
                (false, None),
                (true, None),
                (true, Some(Join::Add)),
                (true, Some(Join::Multiply)),
            ];
            for ((bias, beside), scale) in around.into_iter().flat_map(|b| [(b, false), (b, true)])
            {
                let affine = Act::Affine {
                    mul: 0.03125f32.to_bits(),
                    add: 0,
                };
                for act in [Act::None, Act::Silu, Act::GeluTanh, affine] {
                    let post = Act::None;
                    let kernel = GemmKernel {
                        tile,
                        window,
                        scale,
                        bias,
                        act,
                        factor: false,
                        beside,
                        post,
                        gate: None,
                    };
                    found.push(kernel);
                    found.push(GemmKernel {
                        factor: true,
                        ..kernel
                    });
                    if window.is_none() && beside.is_none() && tile.bn.is_multiple_of(64) {
                        let gate = Some(Act::Gelu);
                        found.push(GemmKernel { gate, ..kernel });
                    }
                }
            }
        }
    }
    found
}

#[test]
fn every_kernel_has_its_own_name() {
    let texts: Vec<PtxKernel> = kernels().iter().map(GemmKernel::kernel).collect();
    let names: std::collections::BTreeSet<&str> = texts.iter().map(|k| k.name.as_str()).collect();
    assert_eq!(names.len(), texts.len());
    for kernel in &texts {
        assert!(kernel.text.contains(&format!(".entry {}(", kernel.name)));
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(kernel.name.chars().all(plain), "{}", kernel.name);
    }
}

/// A workgroup's rows and columns are copied once a step, 16 bytes at a time.
#[test]
fn a_step_copies_every_chunk_once() {
    for kernel in kernels() {
        let tile = kernel.tile;
        let text = kernel.kernel().text;
        let copies = text.matches("cp.async.cg").count() as u32;
        let chunks = (tile.bm() + tile.bn) * tile.line() / 16;
        // Once for each stage ahead and once in the loop; those who only copy have a loop alone.
        let times = if tile.is_alone() { 1 } else { tile.stages };
        assert_eq!(copies * tile.copying(), chunks * times, "{}", kernel.name());
    }
}

/// Every place of the ring has two barriers, and all that is in shared memory has its own bytes.
#[test]
fn a_workgroup_that_is_alone_has_a_ring_with_barriers_and_vectors() {
    for kernel in kernels().into_iter().filter(|k| k.tile.is_alone()) {
        let (tile, made) = (kernel.tile, kernel.kernel());
        assert_eq!(made.threads, tile.computing() + COPIERS);
        let barriers = made.text.matches("mbarrier.init").count() as u32;
        assert_eq!(barriers, 2 * tile.stages, "{}", made.name);
        let vectors = 2 * 3 * tile.bn * 4;
        assert_eq!(made.shared, tile.ring_bytes() + 8 * barriers + vectors);
        let told = made.text.matches("cp.async.mbarrier.arrive.noinc").count();
        assert_eq!(told, 1, "{}", made.name);
    }
}

/// As many workgroups as work at once, or one for each tile.
#[test]
fn grids_cover_all_tiles() {
    let tile = |per_sm| Tile {
        groups: 2,
        blocks: 1,
        bn: 256,
        bk: 64,
        stages: 4,
        per_sm,
    };
    assert_eq!(tile(1).grid(4096, 256, 3072), [132, 1]);
    assert_eq!(tile(1).grid(1024, 256, 1000), [32, 1]);
    assert_eq!(tile(2).grid(4000, 256, 3000), [32, 12]);
}
