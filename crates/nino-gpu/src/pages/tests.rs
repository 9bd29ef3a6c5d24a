//! Places of parameters, and what the allocator says that a loaded network takes.

use std::sync::Arc;

use nino_dtype::DType;
use nino_graph::{Graph, Memory, ParamError, ParamSource, Plan};

use super::*;
use crate::Gpu;
use crate::session::GpuSession;
use crate::testing::gpus;

/// Slices of a page in the order they lie there do not overlap and leave no gap.
fn check(sizes: &[usize], page: usize) -> Vec<usize> {
    let (slices, pages) = lay_out(sizes.iter().copied(), page);
    assert_eq!(slices.len(), sizes.len());
    let mut ends = vec![0; pages.len()];
    for (slice, &size) in slices.iter().zip(sizes) {
        assert_eq!(slice.bytes, ends[slice.page]..ends[slice.page] + size);
        ends[slice.page] = slice.bytes.end;
    }
    assert_eq!(ends, pages, "a page is as large as what is in it");
    for (at, &bytes) in pages.iter().enumerate() {
        let alone = slices.iter().filter(|s| s.page == at).count() == 1;
        assert!(bytes > 0 && (bytes <= page || alone), "{bytes} of {page}");
    }
    pages
}

#[test]
fn parameters_lie_side_by_side() {
    assert_eq!(check(&[], 1024), []);
    assert_eq!(check(&[256; 4], 1024), [1024]);
    assert_eq!(check(&[256; 5], 1024), [1024, 256]);
    assert_eq!(check(&[768, 512, 256, 256, 256], 1024), [768, 1024, 256]);
    // A large one has a page to itself, and others go on where they were.
    assert_eq!(
        check(&[256, 4096, 256, 1025, 512], 1024),
        [1024, 4096, 1025]
    );
    assert_eq!(check(&[256, 256], 0), [256, 256]);
    let many: Vec<usize> = (0..1000).map(|i| (i * 7919 % 97 + 1) * 256).collect();
    let pages = check(&many, 1 << 18);
    let total: usize = many.iter().sum();
    assert!(pages.len() <= total / ((1 << 18) - 97 * 256) + 1);
}

#[test]
fn places_are_aligned_with_slack_behind() {
    let mut g = Graph::new();
    let shapes = [1, 60, 64, 65, 4096, 100_000, 3];
    let params = shapes.map(|n| g.param(&format!("{n}"), [n], DType::F32));
    g.output(params[0]);
    let graph = g.finish().unwrap();
    let specs: Vec<&ParamSpec> = graph.params().map(|(_, spec)| spec).collect();
    let limits = Limits {
        align: 256,
        page: 1 << 16,
        packs_params: true,
        ..Limits::default()
    };
    for page in [1 << 10, 1 << 20] {
        let pages = Pages::new(&specs, limits, page, Ok).unwrap();
        for spec in &specs {
            let (&bytes, place) = pages.find(&spec.name).unwrap();
            assert!(place.start.is_multiple_of(256) && place.end <= bytes);
            assert!(place.len() >= spec.bytes() + 16 && place.len() < spec.bytes() + 16 + 256);
            assert!(bytes <= page.min(limits.page) || place.len() == bytes);
        }
        let total: usize = specs.iter().map(|p| limits.resident_bytes(p.bytes())).sum();
        assert_eq!(pages.pages.iter().sum::<usize>(), total);
        assert!(pages.find("none").is_none());
    }
}

/// A page that cannot be made is the answer.
#[test]
fn a_page_without_memory_is_an_error() {
    let mut g = Graph::new();
    let w = g.param("w", [1 << 10], DType::F32);
    g.output(w);
    let graph = g.finish().unwrap();
    let specs: Vec<&ParamSpec> = graph.params().map(|(_, spec)| spec).collect();
    let wanted = |bytes: usize| GpuError::HostMemory {
        wanted: bytes as u64,
        free: 0,
    };
    let refused = Pages::<()>::new(&specs, Limits::default(), 1 << 20, |b| Err(wanted(b)));
    let error = refused.err().map(|e| e.to_string());
    assert_eq!(error, Some(wanted(4352).to_string()));
}

struct Ones;

impl ParamSource for Ones {
    fn read(&self, _: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        dst.fill(1);
        Ok(())
    }
}

/// Linears of odd sizes with biases, and a constant.
fn network() -> Graph {
    let mut g = Graph::new();
    let width = |i: usize| 128 + i * 17 % 29;
    let mut x = g.input("x", [3, width(0)], DType::F32);
    for i in 0..LAYERS {
        let w = g.param(&format!("{i}.weight"), [width(i + 1), width(i)], DType::F32);
        let b = g.param(&format!("{i}.bias"), [width(i + 1)], DType::F32);
        x = g.linear(x, w, Some(b));
    }
    let ones = vec![1.0; 3 * width(LAYERS)];
    let table = g.constant("table", [3, width(LAYERS)], &ones);
    x = g.add(x, table);
    g.output(x);
    g.finish().unwrap()
}

const LAYERS: usize = 100;

/// Of the device's buffers with such a name: how many there are, and their bytes in its memory. The
/// allocator counts what it skips to align a buffer; sizes are of whole alignments here.
fn allocated(gpu: &Gpu, name: &str) -> (usize, usize) {
    let report = gpu.device.generate_allocator_report();
    let report = report.expect("Vulkan's memory is counted");
    let sizes = report.allocations.iter().filter(|a| a.name == name);
    let sizes: Vec<usize> = sizes.map(|a| a.size as usize / 256 * 256).collect();
    (sizes.len(), sizes.iter().sum())
}

/// What a plan counts is what the allocator gave, to the byte, in few buffers.
#[test]
fn gpu_a_network_takes_what_its_plan_says() {
    for gpu in gpus(None).into_iter().filter(Gpu::records) {
        let gpu = Arc::new(gpu);
        let limits = gpu.caps.limits();
        let plan = Plan::new(network(), &limits).unwrap();
        let small_pages = Limits {
            page: 1 << 20,
            ..limits
        };
        let paged = Plan::new(network(), &small_pages).unwrap();
        let half = plan.weight_bytes() / 2;
        for (plan, streams, pages) in [
            (plan.clone(), false, 1..=1),
            (plan.streaming(half), true, 1..=1),
            (paged, false, 6..=9),
        ] {
            assert_eq!(plan.fetches().is_empty(), !streams);
            let memory = Memory::of([&plan]);
            assert_eq!(memory.bytes(), plan.device_bytes());
            let weights = gpu.load_weights(&[&plan], &Ones).unwrap();
            let (n, bytes) = allocated(&gpu, "weights");
            assert!(
                pages.contains(&n),
                "{n} buffers of {} parameters",
                2 * LAYERS
            );
            let made: u64 = weights.resident.pages.iter().map(wgpu::Buffer::size).sum();
            assert_eq!((bytes, made as usize), (memory.weights, memory.weights));
            let (n_host, host) = allocated(&gpu, "host memory");
            assert_eq!(n_host, usize::from(streams));
            assert!(host >= plan.streamed().each_run);
            let sessions = GpuSession::new_all(&gpu, &[Arc::new(plan)], &Arc::new(weights));
            let sessions = sessions.unwrap();
            let (_, constants) = allocated(&gpu, "constants");
            let (slots, ring) = allocated(&gpu, "streamed weights");
            let (_, arena) = allocated(&gpu, "arena");
            assert_eq!((constants, slots), (memory.constants, 2 * n_host));
            assert_eq!((ring, arena), (memory.ring, memory.arena.bytes()));
            drop(sessions);
            assert_eq!(allocated(&gpu, "weights"), (0, 0));
        }
    }
}
