//! Matrix products: the register-tile kernel, weights in panels, linear layers and batched products.

pub(crate) mod activations;
pub(crate) mod epilogue;
pub(crate) mod grid;
pub(crate) mod linear;
pub(crate) mod matmul;
pub(crate) mod micro;
pub(crate) mod panels;
pub(crate) mod prologue;
pub(crate) mod q8;
pub(crate) mod q8_panels;
pub(crate) mod weights;

#[cfg(test)]
mod tests;
