//! Models, some steps of which use an earlier one again.

use crate::NodeError;
use crate::node::table::{boolean, float, link, out};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{CacheWay, StepReuse};

const INPUTS: &[InputDef] = &[
    link("model", Socket::Model),
    float("reuse_threshold", 0.2, (0.0, 3.0), 0.01),
    float("start_percent", 0.15, (0.0, 1.0), 0.01),
    float("end_percent", 0.95, (0.0, 1.0), 0.01),
    boolean("verbose", false),
];

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "EasyCache",
        display_name: "EasyCache",
        category: "advanced/debug",
        inputs: INPUTS,
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| reusing(call, CacheWay::Easy),
    },
    NodeDef {
        class: "LazyCache",
        display_name: "LazyCache",
        category: "advanced/debug",
        inputs: INPUTS,
        outputs: &[out(Socket::Model)],
        is_output: false,
        run: |call| reusing(call, CacheWay::Lazy),
    },
];

fn reusing(call: &mut Call<'_, '_>, way: CacheWay) -> Result<Vec<Value>, NodeError> {
    let reuse = StepReuse {
        way,
        threshold: call.float("reuse_threshold")? as f32,
        percent: (call.float("start_percent")?, call.float("end_percent")?),
        verbose: call.boolean("verbose")?,
    };
    let model = call.model("model")?.with_step_reuse(reuse)?;
    Ok(vec![Value::from(model)])
}
