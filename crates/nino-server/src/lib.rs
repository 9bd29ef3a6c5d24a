//! ComfyUI's HTTP and WebSocket dialect on the engine, a page of our own, and the image calls of
//! OpenAI and A1111.
//!
//! [`Server::bind`] takes a [`Config`] with opened devices; [`Server::run`] serves until its
//! [`Stop`] is asked for. Each device has one thread (`worker`) that takes jobs from the
//! `queue`; handlers of requests (`routes`) never compute. What clients hear while a job runs
//! goes through the `hub`, and everything that has to outlive the process is in the `journal`.

mod app;
mod chosen;
mod config;
mod downloads;
mod error;
mod folders;
mod gallery;
mod guard;
mod host;
mod hub;
mod job;
mod journal;
mod listen;
mod models;
mod names;
mod parts;
mod pictures;
mod plan;
mod queue;
mod recipe;
mod routes;
mod server;
mod socket;
mod worker;

pub use config::{Config, Place};
pub use error::ServerError;
pub use server::{Server, Stop};
