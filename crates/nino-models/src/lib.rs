//! Model definitions: each records its graph from a configuration.
