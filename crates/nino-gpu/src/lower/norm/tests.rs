//! How rows are dealt out to lanes.

use nino_dtype::DType;
use nino_graph::Graph;

use super::RowLanes;
use crate::Tier;
use crate::kernel::View;
use crate::lower::Lower;
use crate::testing::gpus;

#[test]
fn rows_leave_few_lanes_idle_and_read_whole_lines() {
    let lanes = |d: u32, each: u32, most: u32| {
        let row = RowLanes::of(d / each, most)?;
        Some((row.lanes, row.held))
    };
    // (width, values of a vector, widest) -> lanes of a row, vectors of a lane
    let expected = [
        ((8, 8, 32), Some((1, 1))),
        ((32, 8, 32), Some((4, 1))),
        ((64, 8, 32), Some((8, 1))),
        ((96, 8, 32), Some((16, 1))),
        ((192, 8, 32), Some((8, 3))),
        ((320, 8, 32), Some((8, 5))),
        ((384, 8, 32), Some((16, 3))),
        ((512, 8, 32), Some((32, 2))),
        ((512, 8, 64), Some((64, 1))),
        ((1280, 8, 32), Some((32, 5))),
        ((2048, 8, 32), Some((32, 8))),
        ((96, 4, 32), Some((8, 3))),
        ((384, 4, 32), Some((32, 3))),
        // Narrow subgroups, and rows that are too wide for them.
        ((96, 8, 8), Some((8, 2))),
        ((384, 8, 4), None),
        ((3072, 8, 32), None),
        ((3072, 8, 128), Some((128, 3))),
        ((96, 8, 0), None),
    ];
    for ((d, each, most), row) in expected {
        assert_eq!(lanes(d, each, most), row, "{d} in {each}s, {most} lanes");
    }
}

#[test]
fn gpu_narrow_rows_share_workgroups_at_every_tier() {
    for gpu in [Some(Tier::F32), Some(Tier::F16), None]
        .into_iter()
        .flat_map(gpus)
    {
        let buffer = gpu.buffer("one", 1024).unwrap();
        for dtype in [DType::F16, DType::F32] {
            let mut graph = Graph::new();
            let x = graph.input("x", [1, 4096, 96], dtype);
            let node = graph.rms_norm(x, None, 1e-6);
            let view = View::whole(&buffer, dtype);
            let lower = Lower {
                caps: &gpu.caps,
                graph: &graph,
                node,
                rows: 0..4096,
                last: true,
                operands: vec![view],
                out: view,
                scratch: None,
                packed: false,
            };
            let launches = lower.launches().unwrap();
            let [launch] = &launches[..] else {
                panic!("{launches:?}")
            };
            let label = launch.label();
            assert!(label.starts_with("rows_held"), "{label}");
            assert!(launch.groups[0] <= 4096 / 8, "{label} {:?}", launch.groups);
        }
    }
}
