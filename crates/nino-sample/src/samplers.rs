//! The samplers, one family to a file. Each is a function of a run and the latent it moves from the
//! first noise level to the last. All work in sigma, where x = x0 + sigma * noise, or in the half
//! log-SNR of `snr`.

pub mod adams;
pub mod cfg_pp;
pub mod ddpm;
pub mod deis;
pub mod dpm_2;
pub mod dpm_solver;
pub mod dpmpp_2m;
pub mod dpmpp_2s;
pub mod dpmpp_multistep_sde;
pub mod dpmpp_sde;
pub mod er_sde;
pub mod euler;
pub mod gradient_estimation;
pub mod heun;
pub mod ipndm;
pub mod lcm;
pub mod lms;
pub mod res_multistep;
pub mod seeds;
pub mod uni_pc;

mod snr;
mod solve;
