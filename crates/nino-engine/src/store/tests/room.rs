//! What stays on the device and what goes, with networks of one matrix.

use super::cpu;
use crate::model::identity::{Change, FileId, NetId, Origin, Part};
use crate::store::kept::Kept;
use crate::store::{Lease, Network, StoreUse, held};
use crate::values::{read, write};
use crate::{EngineError, Reopening, Stage, Store, SyntheticParams};
use nino_cpu::{Cpu, CpuOptions};
use nino_dtype::DType;
use nino_graph::{ArenaSize, Graph, Memory, Node, Plan, RunOptions, Weights};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

const SIDE: usize = 64;

/// A network of one matrix with made-up weights.
struct Tiny {
    net: NetId,
    seed: u64,
    plan: Arc<Plan>,
    x: Node,
    y: Node,
}

impl Tiny {
    fn new(net: NetId, seed: u64) -> Tiny {
        let mut g = Graph::new();
        let x = g.input("x", [1, SIDE], DType::F32);
        let w = g.param("matrix.weight", [SIDE, SIDE], DType::F32);
        let y = g.linear(x, w, None);
        g.output(y);
        let graph = g.finish().unwrap();
        Tiny {
            net,
            seed,
            plan: crate::fit::fit(&*cpu(None), &graph, 1).unwrap(),
            x,
            y,
        }
    }

    fn open(&self, store: &Store) -> Result<Lease, EngineError> {
        store.open(&Network {
            stage: Stage::Sample,
            net: self.net.clone(),
            plans: std::slice::from_ref(&self.plan),
            beside: 0,
            source: &|| Ok(Arc::new(SyntheticParams { seed: self.seed })),
        })
    }

    fn run(&self, lease: &mut Lease) -> Vec<f32> {
        let values: Vec<f32> = (0..SIDE).map(|i| (i as f32 * 0.37).sin()).collect();
        let graph = self.plan.graph();
        write(lease.session(), graph, self.x, &values).unwrap();
        lease.session().run(RunOptions::default()).unwrap();
        read(lease.session(), graph, self.y).unwrap()
    }

    /// Opens it, runs it and gives it back.
    fn once(&self, store: &Store) -> Vec<f32> {
        let mut lease = self.open(store).unwrap();
        let values = self.run(&mut lease);
        lease.finish();
        values
    }

    /// Weights and arena.
    fn bytes(&self) -> usize {
        self.plan.device_bytes()
    }

    fn weights(&self) -> usize {
        self.plan.weight_bytes()
    }
}

fn plain() -> NetId {
    NetId::plain(Origin::unique(), Part::Diffusion)
}

fn tiny(seed: u64) -> Tiny {
    Tiny::new(plain(), seed)
}

#[test]
fn sessions_and_weights_are_used_again() {
    let (store, net) = (Store::new(cpu(None)), tiny(1));
    let first = net.once(&store);
    let kept = store.usage();
    assert_eq!((kept.loads, kept.busy_bytes), (1, 0));
    assert_eq!(kept.weight_bytes + kept.arena_bytes, net.bytes());
    assert_eq!(net.once(&store), first);
    assert_eq!(store.usage(), kept, "the same session");
    // Two at a time have an arena each and share their weights.
    let mut both = [net.open(&store).unwrap(), net.open(&store).unwrap()];
    for lease in &mut both {
        assert_eq!(net.run(lease), first);
    }
    let used = store.usage();
    assert_eq!((used.loads, used.weight_bytes), (1, kept.weight_bytes));
    assert_eq!(used.arena_bytes, 2 * kept.arena_bytes);
    assert_eq!(used.busy_bytes, used.weight_bytes + used.arena_bytes);
    // A lease that is dropped instead of finished leaves its weights only.
    drop(both);
    let left = store.usage();
    assert_eq!((left.weight_bytes, left.arena_bytes), (net.weights(), 0));
    assert_eq!(net.once(&store), first);
    assert_eq!(store.usage().loads, 1);
}

/// Every size of picture has an arena of its own, which would wait beside the one that runs.
#[test]
fn where_sessions_cost_little_only_the_last_size_waits() {
    let cpu = Cpu::new(CpuOptions::default()).unwrap();
    let net = plain();
    let sizes = [Tiny::new(net.clone(), 1), Tiny::new(net, 1)];
    let stores = [Store::new(Arc::new(cpu)), Store::new(self::cpu(None))];
    for (store, waiting) in stores.iter().zip([1, 2]) {
        let arena = sizes[0].bytes() - sizes[0].weights();
        let first = sizes[0].once(store);
        assert_eq!(store.usage().arena_bytes, arena);
        assert_eq!(sizes[1].once(store), first);
        let kept = store.usage();
        assert_eq!((kept.loads, kept.arena_bytes), (1, waiting * arena));
        assert_eq!(sizes[1].once(store), first);
        assert_eq!(store.usage(), kept, "the same session");
    }
}

#[test]
fn a_store_that_keeps_nothing_gives_everything_back() {
    let (store, net) = (Store::keeping_nothing(cpu(None)), tiny(1));
    let first = net.once(&store);
    let expected = StoreUse {
        loads: 1,
        peak_bytes: net.bytes(),
        peak_bytes_with_host: net.bytes(),
        ..StoreUse::default()
    };
    assert_eq!(store.usage(), expected);
    assert_eq!(net.once(&store), first);
    assert_eq!(store.usage().loads, 2);
}

#[test]
fn another_lora_quantization_file_or_part_is_another_network() {
    let base = plain();
    let lora = |strength: f32| NetId {
        loras: Arc::new([Change::Lora(
            FileId::of(Path::new("no such lora")),
            strength.to_bits(),
        )]),
        ..base.clone()
    };
    let quantized = NetId {
        quantize: Some(DType::Q8_0),
        ..base.clone()
    };
    let part = NetId {
        part: Part::Text(0),
        ..base.clone()
    };
    let ids = [base.clone(), lora(0.5), lora(1.0), quantized, part, plain()];
    let ids = ids.into_iter().enumerate();
    let nets: Vec<Tiny> = ids.map(|(i, id)| Tiny::new(id, i as u64)).collect();
    let fresh: Vec<Vec<f32>> = nets
        .iter()
        .map(|n| n.once(&Store::new(cpu(None))))
        .collect();
    for (i, values) in fresh.iter().enumerate() {
        assert!(!fresh[..i].contains(values), "{i}");
    }
    // All of them, and one at a time.
    for (budget, loads) in [(None, nets.len()), (Some(nets[0].bytes()), 2 * nets.len())] {
        let store = Store::new(cpu(budget));
        for _ in 0..2 {
            let found: Vec<Vec<f32>> = nets.iter().map(|n| n.once(&store)).collect();
            assert!(found == fresh, "{budget:?}");
        }
        assert_eq!(store.usage().loads, loads, "{budget:?}");
    }
}

#[test]
fn what_was_used_longest_ago_goes_first() {
    let [a, b, c] = [1, 2, 3].map(tiny);
    let budget = 2 * a.bytes();
    let store = Store::new(cpu(Some(budget)));
    for net in [&a, &b, &a, &c] {
        net.once(&store);
        let used = store.usage();
        assert!(used.weight_bytes + used.arena_bytes <= budget, "{used:?}");
        assert!(used.peak_bytes <= budget, "{used:?}");
    }
    let held = [&a, &b, &c].map(|n| store.holds(&n.net));
    assert_eq!(held, [true, false, true]);
    // Sessions that wait go before weights: another network's arena costs no load.
    assert_eq!(store.usage().loads, 3);
    a.once(&store);
    c.once(&store);
    assert_eq!(store.usage().loads, 3);
}

#[test]
fn what_is_in_use_stays_and_the_next_is_told_how_much_is_missing() {
    let (a, b) = (tiny(1), tiny(2));
    let capacity = a.bytes() + b.bytes() - 1;
    let store = Store::new(cpu(Some(capacity)));
    let expected = a.once(&Store::new(cpu(None)));
    let mut lease = a.open(&store).unwrap();
    let error = b.open(&store).err().unwrap();
    let numbers = match &error {
        EngineError::Busy {
            need,
            busy,
            capacity,
        } => [*need, *busy, *capacity],
        other => panic!("{other}"),
    };
    assert_eq!(numbers, [b.bytes(), a.bytes(), capacity]);
    assert_eq!(error.kind(), crate::ErrorKind::Busy);
    assert_eq!(a.run(&mut lease), expected);
    assert_eq!(store.usage().busy_bytes, a.bytes());
    lease.finish();
    b.once(&store);
    assert!(store.holds(&b.net));
}

#[test]
fn a_changed_file_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (model, lora) = (dir.path().join("model"), dir.path().join("lora"));
    for path in [&model, &lora] {
        std::fs::write(path, "as it was").unwrap();
    }
    let net = || NetId {
        loras: Arc::new([Change::Lora(FileId::of(&lora), 1)]),
        ..NetId::plain(Origin::files(std::slice::from_ref(&model)), Part::Vae)
    };
    for path in [&model, &lora] {
        let known = Tiny::new(net(), 1);
        let store = Store::new(cpu(None));
        known.once(&store);
        known.once(&store);
        // Of the same length, so that only its time tells.
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let error = known.open(&store).err().unwrap();
        let changed = matches!(&error, EngineError::FileChanged { path: told } if told == path);
        assert!(changed, "{error}");
        // Opened again it is another network.
        Tiny::new(net(), 2).once(&store);
        assert_eq!(store.usage().loads, 2);
    }
}

#[test]
fn nothing_of_a_lost_device_is_used_again() {
    let device = Reopening::new(cpu(None), || Ok(cpu(None)));
    let (store, net) = (Store::new(Arc::new(device)), tiny(1));
    let expected = net.once(&store);
    let lease = net.open(&store).unwrap();
    store.reopen().unwrap();
    lease.finish();
    let used = store.usage();
    assert_eq!((used.weight_bytes, used.arena_bytes), (0, 0), "{used:?}");
    assert_eq!(net.once(&store), expected);
    assert_eq!(store.usage().loads, 2);
}

/// A device can be lost in one thread while another loads.
#[test]
fn weights_that_arrive_after_the_device_was_lost_are_not_kept() {
    let net = tiny(1);
    let key = (net.net.clone(), held(std::slice::from_ref(&net.plan)));
    let needs = Memory {
        constants: 0,
        weights: 10,
        ring: 0,
        arena: ArenaSize {
            direct: 1,
            ..ArenaSize::default()
        },
    };
    let mut kept = Kept::default();
    let id = kept.make_room(&key, (needs, 0), 100).unwrap();
    kept.forget_device();
    let weights: Weights = Arc::new(());
    kept.loaded(id, &weights);
    assert!(kept.weights(&key).is_none());
    kept.end(id, true);
    assert_eq!(kept.usage().weight_bytes + kept.usage().busy_bytes, 0);
}
