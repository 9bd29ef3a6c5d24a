//! Debian's build of Mesa, unpacked beside what cargo builds with every library that it needs, the
//! C library too: nothing is installed, and it is always the version that the committed table was
//! made with. It has AMD's Vulkan driver (RADV), a library that answers for the kernel of a machine
//! with an AMD card (`card`), and a software GPU with matrix units (lavapipe). Programs are run by
//! the unpacked C library's own loader.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::packages;

pub const VERSION: &str = "26.1.6";
/// One version, so that a new one in the archive changes no result; without it nothing is checked.
const PACKAGES: [&str; 3] = [
    "mesa-vulkan-drivers=26.1.6-1~bpo13+1",
    "mesa-drm-shim=26.1.6-1~bpo13+1",
    "libvulkan1",
];
/// Debian 13 and its backports; then as they were when this version was theirs, from the archive of
/// everything that Debian ever published: backports keep only the newest version.
const SOURCES: [&str; 2] = [
    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
    http://deb.debian.org/debian trixie main\n\
    deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
    http://deb.debian.org/debian trixie-backports main\n",
    "deb [check-valid-until=no signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
    http://snapshot.debian.org/archive/debian/20261115T000000Z trixie main\n\
    deb [check-valid-until=no signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
    http://snapshot.debian.org/archive/debian/20261115T000000Z trixie-backports main\n",
];
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
/// The library that answers for the kernel.
const SHIM: &str = "usr/lib/x86_64-linux-gnu/libamdgpu_noop_drm_shim.so";

/// A Vulkan driver of Mesa's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Radv,
    Lavapipe,
}

impl Driver {
    fn manifest(self) -> &'static str {
        match self {
            Driver::Radv => "usr/share/vulkan/icd.d/radeon_icd.json",
            Driver::Lavapipe => "usr/share/vulkan/icd.d/lvp_icd.json",
        }
    }
}

/// An unpacked Mesa.
#[derive(Clone, Debug)]
pub struct Mesa {
    root: PathBuf,
}

impl Mesa {
    /// Mesa in `cache`, fetched with Debian's tools where it is not there yet. The error is one
    /// sentence that says what is missing.
    pub fn find_or_fetch(cache: &Path) -> Result<Mesa> {
        std::fs::create_dir_all(cache)?;
        let root = cache.canonicalize()?.join(format!("mesa-{VERSION}"));
        let mesa = Mesa { root };
        if !mesa.is_whole() {
            mesa.fetch(cache).with_context(|| {
                format!("Mesa {VERSION} of Debian 13 is not in {}", cache.display())
            })?;
        }
        Ok(mesa)
    }

    fn is_whole(&self) -> bool {
        let [radv, lavapipe] = [Driver::Radv, Driver::Lavapipe].map(Driver::manifest);
        [LOADER, SHIM, radv, lavapipe]
            .iter()
            .all(|file| self.root.join(file).is_file())
    }

    fn fetch(&self, cache: &Path) -> Result<()> {
        let from = |sources| packages::fetch(cache, &self.root, sources, &PACKAGES);
        let [now, then] = SOURCES;
        // Where both fail, what the first lacks is what matters.
        from(now).or_else(|why| from(then).map_err(|_| why))?;
        if !self.is_whole() {
            bail!("Debian's packages hold no driver where it was expected");
        }
        Ok(())
    }

    /// The library that answers for the kernel of a machine with a card.
    pub fn shim(&self) -> PathBuf {
        self.root.join(SHIM)
    }

    /// Where files that are made from Mesa's may be kept.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A command that runs a program with this Mesa's libraries and one of its drivers;
    /// `beside` is loaded before all of them.
    pub fn command(&self, program: &Path, driver: Driver, beside: Option<&Path>) -> Command {
        let manifest = self.root.join(driver.manifest());
        let mut command = Command::new(self.root.join(LOADER));
        command.arg("--library-path").arg(self.root.join(LIBRARIES));
        if let Some(library) = beside {
            command.arg("--preload").arg(library);
        }
        command
            .arg(program)
            .env("VK_ICD_FILENAMES", &manifest)
            .env("VK_DRIVER_FILES", &manifest)
            // Layers that are installed here were built for the C library that is installed here.
            .env("VK_LOADER_LAYERS_DISABLE", "~all~");
        command
    }
}
