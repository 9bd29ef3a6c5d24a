//! Shapes, ops, the graph builder, rewrites, arena planning and the cost model: values only, no
//! device.
//!
//! A model's `forward` records ops on a [`Graph`]; [`Graph::finish`] checks it, [`rewrite()`] fuses
//! it, [`Plan::new`], or [`Search`] within a budget, gives every value a place in one arena and
//! every op its steps. A [`Device`] then loads the weights and opens a [`Session`] that replays the
//! plan.
//!
//! Activations are channels-last and contiguous: images `[b, h, w, c]`, video `[b, t, h, w, c]`,
//! tokens `[b, n, d]`. Convolution weights are `[cout, kh, kw, cin]` (or `[cout, kt, kh, kw,
//! cin]`), linear weights `[out, in]`.

mod around;
mod compose;
mod cost;
mod device;
mod footprint;
mod graph;
mod ops;
mod plan;
mod rewrite;
mod shape;
mod turns;
mod work;

pub use around::{Around, AroundSession};
pub use cost::Cost;
pub use device::{
    Backup, Device, ExecError, OpTime, ParamError, ParamSource, RunOptions, Session, StoredRows,
    Weights,
};
pub use footprint::{Halved, HalvedHeads, Rounded, Use};
pub use graph::{Def, Graph, GraphError, Node, ParamSpec, Shared, Value};
pub use ops::*;
pub use plan::{
    ArenaSize, Budget, Fetch, Home, Limits, Load, Memory, Mib, Place, Plan, PlanError, Rates,
    Search, Span, Step, Time, Traffic, Transfer, Turn,
};
pub use rewrite::{Rewrites, TakesGate, rewrite};
pub use shape::Shape;
pub use turns::taking_turns;
pub use work::{Kind, Work};
