//! One picture after the other: does memory grow?

use crate::{get, send};
use nino_engine::device::resident_bytes;
use std::net::SocketAddr;
use std::time::Duration;

/// How much memory may grow after the first tenth.
const GROWTH: f64 = 1.05;

pub(crate) fn soak(address: SocketAddr, pictures: usize) {
    let mut first = None;
    for i in 0..pictures {
        let id = send(address, i, 1);
        while get(address, &format!("/history/{id}"))[&id].is_null() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let resident = resident_bytes().unwrap_or(0);
        if i + 1 == (pictures / 10).max(1) {
            first = Some(resident);
        }
        if (i + 1) % (pictures / 10).max(1) == 0 {
            println!("{} pictures: {} MiB", i + 1, resident >> 20);
        }
    }
    let (first, last) = (first.unwrap_or(0), resident_bytes().unwrap_or(0));
    assert!(
        last as f64 <= first as f64 * GROWTH,
        "memory grew from {first} to {last} bytes"
    );
}
