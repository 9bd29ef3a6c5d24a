//! Ops as kernel launches: each file turns one op's sizes and views into `Launch`es.

pub mod act;
pub mod attention;
pub mod gemm;
