//! The server in a process of its own.

use crate::bind;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Serves a folder until it is killed, and prints its address.
pub(crate) fn serve(data: &Path) {
    let server = bind(data);
    println!("{}", server.address());
    server.run().unwrap();
}

/// Such a process, which is killed when this is dropped.
pub(crate) struct Child {
    process: std::process::Child,
    pub(crate) address: SocketAddr,
}

impl Child {
    pub(crate) fn serving(data: &Path) -> Child {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["serve".as_ref(), data.as_os_str()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        Child {
            process,
            address: line.trim().parse().unwrap(),
        }
    }

    /// The most memory that it has held so far, in bytes (Linux).
    pub(crate) fn peak(&self) -> usize {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        kib.parse::<usize>().unwrap() << 10
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
