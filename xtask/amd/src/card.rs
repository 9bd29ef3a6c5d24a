//! A machine with an AMD card, as a driver sees it through the kernel, where there is none: Mesa's
//! `mesa-drm-shim` answers the driver's questions for one of the cards that it knows. It runs
//! nothing, and everything compiles.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::mesa::{Driver, Mesa};

/// How a family of chips is shown to the driver.
#[derive(Clone, Copy, Debug)]
struct Shown {
    family: &'static str,
    /// The driver's name of the family, if it is another.
    named: Option<&'static str>,
    /// The card that the shim knows.
    shim: &'static str,
    revision: Option<Revision>,
}

/// A family that the shim does not know, but a sibling of it: the driver tells the two apart by the
/// revision that the kernel gives, and takes nothing that kernels are compiled by from elsewhere
/// but the size of the register file.
#[derive(Clone, Copy, Debug)]
struct Revision {
    /// PCI id and number of the kernel's family of the sibling's card, by which it is found.
    device: u32,
    kernel_family: u32,
    /// The first revision of the family that is wanted: `external_rev_id` in Linux' `nv.c` and
    /// `soc21.c`.
    external: u32,
    /// Vector registers of a SIMD, for waves of 32 lanes.
    registers: u32,
}

const fn known(family: &'static str) -> Shown {
    Shown {
        family,
        named: None,
        shim: family,
        revision: None,
    }
}

const SHOWN: [Shown; 8] = [
    known("polaris10"),
    known("vega10"),
    known("navi10"),
    known("navi21"),
    Shown {
        shim: "navi21",
        revision: Some(Revision {
            device: 0x73bf,
            kernel_family: 143,
            external: 0x3c,
            registers: 1024,
        }),
        ..known("navi23")
    },
    known("navi31"),
    Shown {
        named: Some("STRIX_HALO"),
        shim: "strix1",
        revision: Some(Revision {
            device: 0x150e,
            kernel_family: 150,
            external: 0xc1,
            registers: 1536,
        }),
        ..known("gfx1151")
    },
    known("gfx1201"),
];

/// What the driver's name of a device ends with, if it is of this family.
pub fn device_suffix(family: &str) -> Option<String> {
    let shown = SHOWN.iter().find(|s| s.family == family)?;
    let name = shown
        .named
        .map_or_else(|| family.to_uppercase(), str::to_owned);
    Some(format!("(RADV {name})"))
}

/// A command that runs a program with a card of this family in the machine.
pub fn command(mesa: &Mesa, family: &str, program: &std::path::Path) -> Result<Command> {
    let Some(shown) = SHOWN.iter().find(|s| s.family == family) else {
        bail!("{family} is no family that is known here");
    };
    let shim = match &shown.revision {
        None => mesa.shim(),
        Some(revision) => sibling(mesa, family, revision)?,
    };
    let mut command = mesa.command(program, Driver::Radv, Some(&shim));
    command
        .env("AMDGPU_GPU_ID", shown.shim)
        // A kernel from the cache has no assembly.
        .env("MESA_SHADER_CACHE_DISABLE", "true");
    Ok(command)
}

/// A copy of the shim whose card is another.
fn sibling(mesa: &Mesa, family: &str, revision: &Revision) -> Result<PathBuf> {
    let mut shim = std::fs::read(mesa.shim())?;
    if !revision.write(&mut shim) {
        bail!("Mesa's shim does not know the card that stands for {family}");
    }
    let path = mesa.root().join(format!("{family}-shim.so"));
    std::fs::write(&path, shim)?;
    Ok(path)
}

/// Places of words in what the kernel tells of a card (`drm_amdgpu_info_device` in
/// `amdgpu_drm.h`), which begins with the PCI id.
const EXTERNAL_REV: usize = 8;
const FAMILY: usize = 16;
const SHADER_VISIBLE_VGPRS: usize = 244;

impl Revision {
    /// Changes the one card that is meant, in a table of what the kernel tells of each.
    fn write(&self, shim: &mut [u8]) -> bool {
        let word = |at: usize| {
            let bytes = shim.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let is_device = |&at: &usize| {
            word(at) == Some(self.device)
                && word(at + FAMILY) == Some(self.kernel_family)
                && word(at + SHADER_VISIBLE_VGPRS).is_some_and(|n| [1024, 1536].contains(&n))
        };
        let found: Vec<usize> = (0..shim.len()).step_by(4).filter(is_device).collect();
        let [at] = found[..] else {
            return false;
        };
        let mut set = |place: usize, word: u32| {
            shim[at + place..at + place + 4].copy_from_slice(&word.to_le_bytes());
        };
        set(EXTERNAL_REV, self.external);
        set(SHADER_VISIBLE_VGPRS, self.registers);
        true
    }
}

#[cfg(test)]
mod tests;
