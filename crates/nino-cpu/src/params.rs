//! Loaded parameters, each in the forms that its uses need: packed for products, as f32 for small
//! vectors, or as stored.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use nino_dtype::DType;
use nino_graph::{Epilogue, ExecError, Graph, Node, Op, ParamError, ParamSource, ParamSpec, Plan};

use crate::gemm::weights::{Packed, WeightUse};
use crate::memory::{Buffer, Trim};
use crate::simd::Level;
use crate::threads::Threads;

/// How a graph uses a parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roles {
    /// Its uses as the weights of a conv or linear, one for each shape.
    packed: Vec<WeightUse>,
    /// It is a bias, a gain or the like, and needed as f32.
    vector: bool,
    /// It is read as it is stored.
    raw: bool,
}

impl Roles {
    fn add_packed(&mut self, wanted: WeightUse) {
        match self.packed.iter_mut().find(|u| u.shape == wanted.shape) {
            Some(known) => known.brain &= wanted.brain,
            None => self.packed.push(wanted),
        }
    }
}

pub(crate) struct Param {
    packed: Vec<([usize; 3], Packed)>,
    vector: Option<Buffer>,
    raw: Option<Buffer>,
}

impl Param {
    pub(crate) fn new(
        level: Level,
        spec: &ParamSpec,
        roles: &Roles,
        source: &dyn ParamSource,
    ) -> Result<Param, ExecError> {
        let (dtype, name) = (spec.dtype, &spec.name);
        if let ([wanted], false, false, None) =
            (&roles.packed[..], roles.vector, roles.raw, &spec.inline)
            && let Some(packed) = Packed::read(level, spec, *wanted, source)?
        {
            return Ok(Param {
                packed: vec![(wanted.shape, packed)],
                vector: None,
                raw: None,
            });
        }
        let mut stored = Buffer::new(spec.bytes(), name)?;
        match &spec.inline {
            Some(bytes) => stored.as_mut_slice().copy_from_slice(bytes),
            None => source.read(spec, stored.as_mut_slice())?,
        }
        let mut param = Param {
            packed: Vec::new(),
            vector: None,
            raw: None,
        };
        if roles.vector {
            let n = spec.shape.numel();
            let mut vector = Buffer::new(n * 4, name)?;
            // SAFETY: the buffer is aligned and holds `n` floats.
            let values = unsafe {
                std::slice::from_raw_parts_mut(vector.as_mut_slice().as_mut_ptr().cast(), n)
            };
            nino_dtype::decode(dtype, stored.as_slice(), values).map_err(|e| ParamError {
                name: name.clone(),
                what: e.to_string(),
            })?;
            param.vector = Some(vector);
        }
        let mut left = roles.packed.len();
        for &wanted in &roles.packed {
            left -= 1;
            // The last use takes the bytes themselves, unless they are also needed as stored.
            let bytes = if left > 0 || roles.raw {
                let mut copy = Buffer::new(stored.len(), name)?;
                copy.as_mut_slice().copy_from_slice(stored.as_slice());
                copy
            } else {
                std::mem::replace(&mut stored, Buffer::new(0, name)?)
            };
            let packed = Packed::new(level, dtype, wanted, bytes, name)?;
            param.packed.push((wanted.shape, packed));
        }
        if roles.raw {
            param.raw = Some(stored);
        }
        Ok(param)
    }

    /// Makes a parameter without values, for one that is read later: it has the layout and so the
    /// scratch that its ops need.
    pub(crate) fn outline(
        level: Level,
        spec: &ParamSpec,
        roles: &Roles,
    ) -> Result<Param, ExecError> {
        let packed = |&wanted: &WeightUse| {
            let packed = Packed::outline(level, spec.dtype, wanted, &spec.name)?;
            Ok((wanted.shape, packed))
        };
        Ok(Param {
            packed: roles
                .packed
                .iter()
                .map(packed)
                .collect::<Result<_, ExecError>>()?,
            vector: None,
            raw: None,
        })
    }

    pub(crate) fn packed(&self, shape: [usize; 3]) -> Option<&Packed> {
        self.packed
            .iter()
            .find(|(s, _)| *s == shape)
            .map(|(_, p)| p)
    }

    pub(crate) fn vector(&self) -> Option<*const f32> {
        self.vector.as_ref().map(|b| b.as_ptr().cast_const().cast())
    }

    pub(crate) fn raw(&self) -> Option<&Buffer> {
        self.raw.as_ref()
    }

    pub(crate) fn bytes(&self) -> usize {
        let packed: usize = self.packed.iter().map(|(_, p)| p.stored_bytes()).sum();
        packed
            + self.vector.as_ref().map_or(0, Buffer::len)
            + self.raw.as_ref().map_or(0, Buffer::len)
    }
}

/// Parameters by name, and where those that are not kept are read from.
pub(crate) struct Params {
    by_name: BTreeMap<String, Param>,
    pub(crate) source: Arc<dyn ParamSource>,
    /// The last field: it is dropped after the parameters.
    _trim: Trim,
}

impl Params {
    pub(crate) fn load(
        level: Level,
        plans: &[&Plan],
        threads: &Threads,
        source: Arc<dyn ParamSource>,
    ) -> Result<Params, ExecError> {
        let mut wanted: BTreeMap<&str, (&ParamSpec, Roles)> = BTreeMap::new();
        for plan in plans {
            let fetched = fetched(plan);
            for (node, (spec, roles)) in roles(plan.graph()) {
                if spec.inline.is_some() || fetched.contains(&node) {
                    continue;
                }
                let (_, all) = wanted.entry(&spec.name).or_insert((spec, Roles::default()));
                all.vector |= roles.vector;
                all.raw |= roles.raw;
                for wanted in roles.packed {
                    all.add_packed(wanted);
                }
            }
        }
        let by_name = read_all(level, wanted.into_values().collect(), threads, &*source)?;
        Ok(Params {
            by_name,
            source,
            _trim: Trim,
        })
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Param> {
        self.by_name.get(name)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.by_name.values().map(Param::bytes).sum()
    }
}

/// Reads and packs on as many threads as there are. The largest parameters come first, so that the
/// memory a thread needs while packing is small by the time most parameters are loaded. On a machine
/// of several nodes parameters come to lie on those that compute with them, by turns.
fn read_all(
    level: Level,
    mut wanted: Vec<(&ParamSpec, Roles)>,
    pool: &Threads,
    source: &dyn ParamSource,
) -> Result<BTreeMap<String, Param>, ExecError> {
    wanted.sort_by_key(|(spec, _)| Reverse(spec.bytes()));
    let next = AtomicUsize::new(0);
    let work = || {
        let mut mine = Vec::new();
        while let Some((spec, roles)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            let read = Param::new(level, spec, roles, source);
            // After a failure the other threads stop.
            let read = read.inspect_err(|_| next.store(wanted.len(), Ordering::Relaxed));
            mine.push((spec.name.clone(), read?));
        }
        Ok(mine)
    };
    let threads = pool.count().min(wanted.len()).max(1);
    // The caller stays where it is, so that its share would lie anywhere.
    let first = usize::from(!pool.places().exist());
    let parts: Vec<Result<Vec<(String, Param)>, ExecError>> = thread::scope(|scope| {
        // A thread that cannot be started leaves its share to the others.
        let spawn = |index: usize| {
            let settled = move || {
                pool.places().settle(index);
                work()
            };
            thread::Builder::new().spawn_scoped(scope, settled).ok()
        };
        let spawned: Vec<_> = (first..threads).map_while(spawn).collect();
        let mine = (first == 1 || spawned.is_empty()).then(work);
        let joined = spawned
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|panic| resume_unwind(panic)));
        mine.into_iter().chain(joined).collect()
    });
    let mut by_name = BTreeMap::new();
    for part in parts {
        by_name.extend(part?);
    }
    Ok(by_name)
}

/// Gives the parameters that the plan reads again in every run.
pub(crate) fn fetched(plan: &Plan) -> BTreeSet<Node> {
    let params = plan.fetches().iter().flat_map(|f| &f.params);
    params.map(|(node, _)| *node).collect()
}

/// Gives the shape of weights `[n, kt, kh, kw, cin]` or `[n, k]` as `[n, taps, cin]`.
pub(crate) fn packed_shape(g: &Graph, w: Node) -> [usize; 3] {
    let s = g.shape(w);
    let (n, cin) = (s[0], s.last_dim());
    [n, s[1..s.rank() - 1].iter().product(), cin]
}

/// Gives the roles of each parameter that a graph's ops read.
pub(crate) fn roles(g: &Graph) -> BTreeMap<Node, (&ParamSpec, Roles)> {
    let mut found: BTreeMap<Node, (&ParamSpec, Roles)> = BTreeMap::new();
    let mut note = |n: Node, f: &dyn Fn(&mut Roles)| {
        let root = g.root(n);
        if let nino_graph::Def::Param(spec) = &g.value(root).def {
            f(&mut found.entry(root).or_insert((spec, Roles::default())).1);
        }
    };
    for (_, op) in g.ops() {
        let (weights, vectors) = match op {
            Op::Linear(o) => (Some((o.w, o.x)), vectors(o.pre.as_ref(), &o.epi)),
            Op::Conv(o) => (Some((o.w, o.x)), vectors(o.pre.as_ref(), &o.epi)),
            Op::Normalize(o) => (None, vectors(Some(&o.norm), &Epilogue::default())),
            Op::RowNorm(o) => (None, [o.weight, o.bias, None, None]),
            _ => (None, [None; 4]),
        };
        for n in op.operands() {
            if let Some((w, x)) = weights
                && w == n
            {
                let wanted = WeightUse {
                    shape: packed_shape(g, n),
                    brain: g.dtype(x) == DType::BF16,
                };
                note(n, &|r| r.add_packed(wanted));
            } else if vectors.contains(&Some(n)) {
                note(n, &|r| r.vector = true);
            } else if !matches!(op, Op::Reshape(_)) {
                note(n, &|r| r.raw = true);
            }
        }
    }
    for &n in g.outputs() {
        note(n, &|r| r.raw = true);
    }
    found
}

/// The parameters around a product that have a value for each channel.
fn vectors(pre: Option<&nino_graph::Prologue>, epi: &Epilogue) -> [Option<Node>; 4] {
    let (weight, bias) = (pre.and_then(|p| p.weight), pre.and_then(|p| p.bias));
    [weight, bias, epi.scale, epi.bias]
}
