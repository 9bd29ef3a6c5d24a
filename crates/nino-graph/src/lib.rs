//! Shapes, ops, the graph builder, rewrites, arena planning and the cost model: values only, no device.
