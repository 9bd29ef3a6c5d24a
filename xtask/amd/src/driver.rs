//! Mesa's Vulkan driver for AMD, unpacked beside what cargo builds: not installed, and always the
//! version that the committed table was made with.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::packages::{self, Wanted};

/// The driver's version, and the packages of Debian 12's backports that it needs.
pub const VERSION: &str = "25.0.7";
const PACKAGES: [&str; 4] = [
    "mesa-vulkan-drivers=25.0.7-2~bpo12+1",
    "libdrm2=2.4.123-1~bpo12+1",
    "libdrm-amdgpu1=2.4.123-1~bpo12+1",
    "libdrm-common=2.4.123-1~bpo12+1",
];
const SOURCE: &str = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
    http://deb.debian.org/debian bookworm-backports main\n";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const MANIFEST: &str = "usr/share/vulkan/icd.d/radeon_icd.json";

/// An unpacked driver.
#[derive(Clone, Debug)]
pub struct Driver {
    root: PathBuf,
}

impl Driver {
    /// The driver in `cache`, fetched with Debian's tools where it is not there yet. The error is
    /// one sentence that says what is missing.
    pub fn find_or_fetch(cache: &Path) -> Result<Driver> {
        let root = cache.join(format!("radv-{VERSION}"));
        let driver = Driver { root };
        if !driver.is_whole() {
            driver.fetch(cache).with_context(|| {
                format!(
                    "Mesa {VERSION}'s Vulkan driver for AMD is not in {}",
                    cache.display()
                )
            })?;
        }
        Ok(driver)
    }

    fn is_whole(&self) -> bool {
        let library = self.root.join(LIBRARIES).join("libvulkan_radeon.so");
        library.is_file() && self.root.join(MANIFEST).is_file()
    }

    fn fetch(&self, cache: &Path) -> Result<()> {
        packages::fetch(cache, &self.root, SOURCE, Wanted::Alone(&PACKAGES))?;
        if !self.is_whole() {
            bail!("Debian's packages hold no driver where it was expected");
        }
        Ok(())
    }

    /// Makes a command's process see one family of cards and no other device.
    pub fn show(&self, family: &str, command: &mut Command) {
        command
            .env("LD_LIBRARY_PATH", self.root.join(LIBRARIES))
            .env("VK_ICD_FILENAMES", self.root.join(MANIFEST))
            .env("VK_DRIVER_FILES", self.root.join(MANIFEST))
            .env("RADV_FORCE_FAMILY", family)
            // A kernel from the cache has no assembly.
            .env("MESA_SHADER_CACHE_DISABLE", "true");
    }
}
