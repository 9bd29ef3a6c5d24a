//! One problem per op with a plain reference, run as tests, as bench and as doctor --verify.
