//! f32 values in and out of a session, whatever the node's storage type.

use crate::EngineError;
use nino_graph::{Graph, Node, Session};

/// Writes f32 values in the node's dtype.
pub(crate) fn write(
    session: &mut dyn Session,
    graph: &Graph,
    node: Node,
    values: &[f32],
) -> Result<(), EngineError> {
    let mut bytes = vec![0; graph.bytes(node)];
    nino_dtype::encode(graph.dtype(node), values, &mut bytes)?;
    Ok(session.write(node, &bytes)?)
}

/// Reads a value as f32.
pub(crate) fn read(
    session: &mut dyn Session,
    graph: &Graph,
    node: Node,
) -> Result<Vec<f32>, EngineError> {
    let mut bytes = vec![0; graph.bytes(node)];
    session.read(node, &mut bytes)?;
    let mut values = vec![0.0; graph.shape(node).numel()];
    nino_dtype::decode(graph.dtype(node), &bytes, &mut values)?;
    Ok(values)
}
