//! The list of problems itself; each executor's own tests run it on their devices.

mod facts;
mod list;
mod tolerance;
