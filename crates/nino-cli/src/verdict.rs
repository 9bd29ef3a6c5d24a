//! Whether what a plan needs is there on this machine.

use crate::bytes::Bytes;
use nino_engine::device::Opened;
use serde::Serialize;
use std::fmt;

/// What a plan needs of this machine, and what there is. Prints as one line of a plan.
#[derive(Serialize)]
pub(crate) struct Verdict {
    pub(crate) fits: bool,
    #[serde(skip)]
    needed: u64,
    /// Memory of the device that plans may use now; `None` when nothing is known.
    available_bytes: Option<u64>,
    #[serde(skip)]
    outside: u64,
    /// Where values wait outside the device: free bytes there, where they are known.
    outside_available_bytes: Option<u64>,
    #[serde(skip)]
    outside_is: &'static str,
    #[serde(skip)]
    is_predicted: bool,
}

/// What a plan needs, in bytes.
pub(crate) struct Needs {
    /// On the device.
    pub(crate) peak: usize,
    /// In the host's memory for the program itself, which on a CPU is the device's memory, too.
    pub(crate) program: usize,
    /// Outside the device: on disk for a CPU, in the host's memory for a GPU.
    pub(crate) outside: usize,
}

impl Verdict {
    pub(crate) fn new(opened: &Opened, needs: &Needs) -> Verdict {
        let is_cpu = opened.tier.is_none();
        let needed = needs.peak + if is_cpu { needs.program } else { 0 };
        let (needed, outside) = (needed as u64, needs.outside as u64);
        let available_bytes = opened.available.as_ref().map(|b| b.bytes);
        let outside_available_bytes = (outside > 0).then(|| opened.outside_bytes()).flatten();
        let within = |needed: u64, there: Option<u64>| there.is_none_or(|there| needed <= there);
        Verdict {
            fits: within(needed, available_bytes) && within(outside, outside_available_bytes),
            needed,
            available_bytes,
            outside,
            outside_available_bytes,
            outside_is: if is_cpu { "disk" } else { "memory" },
            is_predicted: opened.is_predicted(),
        }
    }
}

/// One line: `fits here: 4.2 GiB of 21.6 GiB`.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.is_predicted {
            "there (predicted)"
        } else {
            "here"
        };
        let needed = Bytes(self.needed);
        match (self.fits, self.available_bytes) {
            (true, Some(free)) => write!(f, "fits {place}: {needed} of {}", Bytes(free))?,
            (true, None) => write!(f, "fits {place}, if {needed} are free")?,
            (false, Some(free)) => {
                write!(
                    f,
                    "does not fit {place}: {needed} needed, {} free",
                    Bytes(free)
                )?;
            }
            (false, None) => write!(f, "does not fit {place}: {needed} needed")?,
        }
        if let Some(there) = self.outside_available_bytes {
            let (outside, there) = (Bytes(self.outside), Bytes(there));
            write!(f, ", and {outside} of {there} of {}", self.outside_is)?;
        }
        Ok(())
    }
}
