//! Choices that are kept, read, and refused; and candidates timed on every device there is.

use super::*;
use crate::kernel::{Kernel, View};
use crate::ops::act::ActCode;
use crate::ops::gemm::Gemm;
use crate::testing::{gpus, some_adapter};
use crate::{Tier, tune};
use nino_dtype::DType;
use nino_graph::{Graph, Plan, rewrite};

const PRODUCT: Problem = Problem {
    kernel: TiledKernel::Coop,
    size: [4096, 640, 1280],
};
const TILE: Numbers = [64, 64, 32, 32, 32, 2, 0, 1];

fn choices() -> Choices {
    let mut choices = Choices::default();
    choices.set(PRODUCT, TILE);
    let attention = Problem {
        kernel: TiledKernel::Attention,
        size: [4096, 128, 64],
    };
    choices.set(attention, [64, 32, 16, 0, 0, 0, 0, 0]);
    choices
}

#[test]
fn choices_are_kept_for_one_driver_of_one_device() {
    let folder = tempfile::tempdir().unwrap();
    let mut info = some_adapter();
    assert_eq!(Choices::read(folder.path(), &info), None);
    choices().keep(folder.path(), &info);
    assert_eq!(Choices::read(folder.path(), &info), Some(choices()));
    info.driver_info = "newer".to_owned();
    assert_eq!(Choices::read(folder.path(), &info), None);
}

#[test]
fn lines_that_are_not_understood_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let info = some_adapter();
    choices().keep(folder.path(), &info);
    let path = Choices::path(folder.path(), &info);
    let mut text = std::fs::read_to_string(&path).unwrap();
    text += "matrix-product 1 2 3 4\nsomething 1 2 3 1 1 1 1 1 1 1 1\nattention x\n\n";
    std::fs::write(&path, text).unwrap();
    assert_eq!(Choices::read(folder.path(), &info), Some(choices()));
}

fn caps(choices: Choices) -> Caps {
    let mut caps = Caps::new(&some_adapter(), &wgpu::Limits::default(), Tier::Coop);
    caps.tiles.choices = Some(Arc::new(choices));
    caps
}

/// The tile of the product that [`PRODUCT`] stands for.
fn chosen(caps: &Caps) -> [i64; 3] {
    let view = View {
        buffer: None,
        offset: 0,
        bytes: 0,
        dtype: DType::F16,
        first: 0,
    };
    let gemm = Gemm {
        m: 4000,
        n: 640,
        k: 1280,
        batch: 1,
        first: 0,
        w_first: 0,
        x: view,
        w: view,
        out: view,
        scale: None,
        bias: None,
        factor: None,
        beside: None,
        prologue: None,
        act: ActCode::default(),
        post: ActCode::default(),
        halves: None,
        gate: None,
        alpha: 1.0,
        w_kn: false,
        w_packed: false,
        conv: None,
    };
    let Kernel::Shader(key) = gemm.best(caps).unwrap().kernel else {
        panic!("a shader")
    };
    ["BM", "BN", "BK"].map(|name| key.consts[name])
}

#[test]
fn a_measured_tile_is_used_and_one_that_nobody_tries_is_not() {
    assert_eq!(chosen(&caps(choices())), [64, 64, 32]);
    let usual = chosen(&caps(Choices::default()));
    assert_ne!(usual, [64, 64, 32]);
    let mut strange = Choices::default();
    strange.set(PRODUCT, [1 << 20, 64, 32, 32, 32, 2, 0, 1]);
    assert_eq!(chosen(&caps(strange)), usual);
}

#[test]
fn tables_choose_among_the_candidates() {
    for (arch, coop) in [
        (crate::Arch::Other, Some(16)),
        (crate::Arch::RdnaMatrix, Some(16)),
        (crate::Arch::Rdna4, Some(16)),
        (crate::Arch::Other, Some(8)),
    ] {
        let mut caps = caps(Choices::default());
        (caps.arch, caps.coop_size) = (arch, coop);
        let [bm, bn, bk] = chosen(&caps);
        let known = candidates(TiledKernel::Coop, &caps);
        let same = |t: &Numbers| [t[0], t[1], t[2]].map(i64::from) == [bm, bn, bk];
        assert!(known.iter().any(same), "{arch:?} {coop:?}: {bm}x{bn}x{bk}");
    }
}

/// A plan's problems are those of its products, and each device finds a tile that is at least as
/// fast as the usual one.
#[test]
fn problems_of_a_plan_are_timed_on_every_device() {
    for gpu in gpus(None) {
        let mut g = Graph::new();
        let dtype = if gpu.caps.tier >= Tier::F16 {
            DType::F16
        } else {
            DType::F32
        };
        let x = g.input("x", [1, 100, 64], dtype);
        let w = g.param("w", [72, 64], dtype);
        let y = g.linear(x, w, None);
        g.output(y);
        let graph = g.finish().unwrap();
        let caps = Caps {
            ptx: None,
            ..gpu.caps.clone()
        };
        let plan = Plan::new(rewrite(&graph, caps.rewrites()), &caps.limits()).unwrap();
        let problems = tune::problems(&caps, &plan).unwrap();
        let sizes: Vec<[u32; 3]> = problems.iter().map(|p| p.size).collect();
        assert_eq!(sizes, [[128, 72, 64]], "{}", gpu.info.name);
        for problem in problems {
            let tuned = gpu.tune(problem).unwrap().unwrap();
            let all = candidates(problem.kernel, &gpu.caps).len();
            assert_eq!(tuned.timed, all, "all of them are right");
            assert!(tuned.best <= tuned.usual, "{tuned:?}");
            assert_eq!(tuned.choice.is_some(), tuned.best < tuned.usual);
            if let Some(tile) = tuned.choice {
                assert!(candidates(problem.kernel, &gpu.caps).contains(&tile));
            }
        }
    }
}
