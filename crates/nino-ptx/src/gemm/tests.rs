use super::*;

fn kernels() -> Vec<GemmKernel> {
    let tile = |blocks, bn, bk, stages, per_sm| Tile {
        groups: 1,
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
    for tile in [tile(1, 128, 64, 3, 3), tile(2, 160, 32, 2, 2)] {
        let windows = [
            window(1, 1, 1),
            window(1, 2, 1),
            window(1, 1, 2),
            window(3, 1, 1),
        ];
        for window in [None].into_iter().chain(windows) {
            let around = [(false, false), (true, false), (true, true)];
            for ((bias, residual), scale) in
                around.into_iter().flat_map(|b| [(b, false), (b, true)])
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
                        residual,
                        post,
                        gate: None,
                    };
                    found.push(kernel);
                    found.push(GemmKernel {
                        factor: true,
                        ..kernel
                    });
                    if window.is_none() && !residual && tile.bn == 128 {
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
        // Once for each stage ahead and once in the loop.
        assert_eq!(
            copies * tile.threads(),
            chunks * tile.stages,
            "{}",
            kernel.name()
        );
    }
}
