//! The end of a tensor beyond 2^32 elements becomes what the end of a small one does: each op is
//! lowered for the last rows of both, bound to buffers that hold no more than these rows touch.

use std::ops::Range;

use nino_dtype::DType;
use nino_graph::{Graph, Node, Op};
use nino_suite::{LONG, Long};

use super::Lower;
use crate::kernel::{Launch, MOST_GROUPS, View};
use crate::ops::gemm::packs_weights;
use crate::testing::gpus;
use crate::{Gpu, Tier};

/// Ops that run no kernel: views, and ops that only the CPU has so far.
const WITHOUT_KERNEL: [&str; 1] = ["reshape"];

/// What results are filled with before: in every type a number that comes back as it was when half
/// a word is written.
const POISON: u8 = 0xe9;

/// Bytes of a value that are held in any case.
const LEAST: usize = 1024;

#[test]
fn gpu_rows_beyond_32_bits_of_elements_are_as_others() {
    let mut failures = Vec::new();
    for gpu in [Some(Tier::F32), None].into_iter().flat_map(gpus) {
        for case in &*LONG {
            for dtype in [DType::F16, DType::F32] {
                if let Err(why) = check(&gpu, case, dtype) {
                    failures.push(format!("{} {} {dtype}: {why}", case.name, gpu.caps.tier));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_op_with_a_kernel_has_a_case() {
    let built = LONG.iter().map(|case| {
        let mut graph = Graph::new();
        let node = (case.build)(&mut graph, case.sizes[0], DType::F32);
        graph.op(node).unwrap().name()
    });
    let seen: Vec<&str> = built.chain(WITHOUT_KERNEL).collect();
    let missing: Vec<&&str> = Op::NAMES.iter().filter(|n| !seen.contains(n)).collect();
    assert!(
        missing.is_empty(),
        "the suite has no long case for {missing:?}"
    );
}

#[test]
fn gpu_more_rows_than_kernels_count_are_refused() {
    for gpu in gpus(None) {
        let buffer = gpu.buffer("one", 16).unwrap();
        for (n, fits) in [(1 << 31, false), ((1 << 31) - 1, true)] {
            let mut g = Graph::new();
            let x = g.input("x", [n, 2], DType::F16);
            let node = g.silu(x);
            let view = View {
                first: (n as u64 - 8) * 2,
                ..View::whole(&buffer, DType::F16)
            };
            let lower = Lower {
                caps: &gpu.caps,
                graph: &g,
                node,
                rows: n - 4..n,
                last: true,
                operands: vec![view],
                out: view,
                scratch: None,
                packed: false,
            };
            let launches = lower.launches();
            assert_eq!(launches.is_ok(), fits, "{n} rows: {launches:?}");
            if let Err(e) = launches {
                assert!(e.to_string().contains("2147483648"), "{e}");
            }
        }
    }
}

/// Launches of a convolution of 4096 × 4096 pixels, and which rows each makes: nothing runs.
#[test]
fn gpu_products_of_many_rows_are_launches_that_devices_take() {
    for gpu in gpus(None) {
        let buffer = gpu.buffer("one", 16).unwrap();
        let view = View::whole(&buffer, DType::F16);
        for (cout, side) in [(32, 1), (32, 3), (4, 3)] {
            let mut g = Graph::new();
            let x = g.input("x", [1, 4096, 4096, 16], DType::F16);
            let w = g.param("w", [cout, side, side, 16], DType::F16);
            let node = g.conv2d(x, w, None, side / 2);
            let lower = Lower {
                caps: &gpu.caps,
                graph: &g,
                node,
                rows: 0..4096,
                last: true,
                operands: vec![view; 2],
                out: view,
                scratch: None,
                packed: false,
            };
            let launches = lower.launches().unwrap();
            let mut next = 0;
            for launch in &launches {
                assert!(launch.groups.iter().all(|&n| n <= MOST_GROUPS));
                // The 3x3 kernel counts rows of the picture and is told the last, others pixels and
                // how many.
                let label = launch.label();
                let (first, len) = (launch.params[3], launch.params[0]);
                let (first, len) = if label.starts_with("conv3") {
                    (first * 4096, (len - first) * 4096)
                } else {
                    (first, len)
                };
                assert_eq!(first, next, "{label}");
                next += len;
            }
            assert_eq!(next, 4096 * 4096, "{cout} channels, {side}");
        }
    }
}

fn check(gpu: &Gpu, case: &Long, dtype: DType) -> Result<(), String> {
    let [small, long] = case.sizes.map(|size| {
        let mut graph = Graph::new();
        let node = (case.build)(&mut graph, size, dtype);
        (graph.finish().unwrap(), node)
    });
    let rows = small.0.op_rows(small.1).min(case.rows);
    let kept: Vec<usize> = small
        .0
        .uses(small.1, &(0..1))
        .iter()
        .map(|used| small.0.bytes(used.node).max(LEAST))
        .collect();
    let values = |(graph, node): &(Graph, Node)| {
        let used = graph.uses(*node, &(0..1));
        used.iter().map(|u| graph.shape(u.node).numel()).max()
    };
    assert!(values(&long) > Some(1 << 32), "{} is not long", case.name);
    let expected = run(gpu, &small, rows, &kept)?;
    let found = run(gpu, &long, rows, &kept)?;
    let last = &found.bytes[found.bytes.len() - expected.bytes.len()..];
    if expected.kernels != found.kernels {
        let (a, b) = (expected.kernels, found.kernels);
        return Err(format!("kernels differ: {a:?} and {b:?}"));
    }
    if expected.bytes != last {
        let pairs = expected.bytes.iter().zip(last);
        let wrong = pairs.filter(|(a, b)| a != b).count();
        let n = expected.bytes.len();
        return Err(format!("{wrong} of {n} bytes differ"));
    }
    Ok(())
}

struct Outcome {
    kernels: Vec<String>,
    bytes: Vec<u8>,
}

/// The last `rows` of an op; of each value at most the last bytes that `kept` says are held.
fn run(
    gpu: &Gpu,
    (graph, node): &(Graph, Node),
    rows: usize,
    kept: &[usize],
) -> Result<Outcome, String> {
    let n_rows = graph.op_rows(*node);
    let rows = n_rows - rows..n_rows;
    let uses = graph.uses(*node, &rows);
    let mut parts: Vec<Part> = uses
        .iter()
        .zip(kept)
        .map(|(used, &kept)| Part::new(gpu, graph, used.node, &used.bytes, kept))
        .collect();
    let out = parts.pop().unwrap();
    for (part, used) in parts.iter().zip(&uses) {
        part.fill(gpu, graph.shape(used.node).numel());
    }
    let poison = vec![POISON; out.size()];
    gpu.write(&out.buffer, 0, &poison).unwrap();
    let scratch_bytes = graph.scratch_bytes(*node);
    let scratch = gpu.buffer("scratch", scratch_bytes as u64).unwrap();
    gpu.write(&scratch, 0, &vec![0; scratch_bytes]).unwrap();
    let packed = match graph.op(*node) {
        Some(Op::Conv(conv)) => packs_weights(&gpu.caps, graph, conv),
        _ => false,
    };
    let lower = Lower {
        caps: &gpu.caps,
        graph,
        node: *node,
        rows,
        last: true,
        operands: parts.iter().map(Part::view).collect(),
        out: out.view(),
        scratch: (scratch_bytes > 0).then(|| View::whole(&scratch, DType::F32)),
        packed,
    };
    let launches = lower.launches().map_err(|e| e.to_string())?;
    for launch in &launches {
        let dispatch = gpu.dispatch(launch).map_err(|e| e.to_string())?;
        gpu.time(&dispatch, 1).map_err(|e| e.to_string())?;
    }
    let bytes = out.written(gpu)?;
    let kernels = launches.iter().map(Launch::label).collect();
    Ok(Outcome { kernels, bytes })
}

/// A range of a value's bytes, as far into a buffer as a plan would put it.
struct Part {
    buffer: wgpu::Buffer,
    dtype: DType,
    range: Range<usize>,
    skip: usize,
}

impl Part {
    fn new(gpu: &Gpu, graph: &Graph, node: Node, used: &Range<usize>, kept: usize) -> Part {
        let start = used.start.max(graph.bytes(node).saturating_sub(kept));
        let skip = start % gpu.caps.offset_alignment.max(256) as usize;
        let range = start..used.end;
        Part {
            buffer: gpu.buffer("part", (skip + range.len()) as u64).unwrap(),
            dtype: graph.dtype(node),
            range,
            skip,
        }
    }

    fn view(&self) -> View<'_> {
        View {
            buffer: Some(&self.buffer),
            offset: self.skip as u64,
            bytes: self.range.len() as u64,
            dtype: self.dtype,
            first: (self.range.start / self.dtype.block_bytes()) as u64,
        }
    }

    fn size(&self) -> usize {
        self.buffer.size() as usize
    }

    /// Values that depend on how far they are from the end of the whole.
    fn fill(&self, gpu: &Gpu, numel: usize) {
        let size = self.dtype.block_bytes();
        let left = (self.range.start / size..self.range.end / size).map(|i| numel - i);
        let bytes = if self.dtype == DType::I32 {
            left.flat_map(|n| ((n * 7 % 10) as i32).to_le_bytes())
                .collect()
        } else {
            let hash = |n: usize| (n as u32).wrapping_mul(2_654_435_761) >> 16;
            let values: Vec<f32> = left.map(|n| hash(n) as f32 / 32768.0 - 1.0).collect();
            let mut bytes = vec![0; self.range.len()];
            nino_dtype::encode(self.dtype, &values, &mut bytes).unwrap();
            bytes
        };
        gpu.write_within(&self.buffer, self.skip as u64, &bytes)
            .unwrap();
    }

    /// What a kernel wrote: all of the range and nothing beside it.
    fn written(&self, gpu: &Gpu) -> Result<Vec<u8>, String> {
        let all = gpu.read(&self.buffer, 0, self.size()).unwrap();
        let (before, rest) = all.split_at(self.skip);
        let (written, after) = rest.split_at(self.range.len());
        if before.iter().chain(after).any(|&byte| byte != POISON) {
            return Err("wrote beside its rows".to_owned());
        }
        let mut values = written.chunks_exact(self.dtype.block_bytes());
        if values.any(|v| v.iter().all(|&byte| byte == POISON)) {
            return Err("left values as they were".to_owned());
        }
        Ok(written.to_vec())
    }
}
