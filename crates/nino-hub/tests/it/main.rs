//! Downloads from servers in this process: honest ones, and ones that do all they can to harm.
#![allow(clippy::unwrap_used)]
// A table of cases reads best as one.
#![allow(clippy::match_bool, clippy::type_complexity)]

mod bodies;
mod cache;
mod honest;
mod lists;
mod names;
mod redirects;
mod server;
mod statuses;
mod time;
mod trial;
