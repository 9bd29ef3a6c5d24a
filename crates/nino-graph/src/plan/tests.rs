//! Planning: lifetimes, packing and cutting.
