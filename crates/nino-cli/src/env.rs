//! Every environment variable that is read or explained, in one place.

#[cfg(test)]
mod tests;

use crate::failure::Usage;
use crate::settings::{self, Settings};
use nino_engine::{Library, LibraryPaths};
use serde::Serialize;
use std::path::PathBuf;

/// What our own variables say; flags win over them.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // one for each variable
pub(crate) struct Env {
    pub(crate) log: Option<String>,
    /// Where the config file is, if it is there.
    pub(crate) config: Option<PathBuf>,
    /// What is wrong with the config file, where it was left out for that.
    pub(crate) config_problem: Option<String>,
    /// What variables and the config file set.
    pub(crate) settings: Settings,
    /// Where compiled kernels and downloads are kept between runs.
    pub(crate) cache_dir: Option<PathBuf>,
    /// Where what users make is kept, by verbs that are not told a place.
    pub(crate) data_dir: Option<PathBuf>,
    /// The active virtual environment of Python.
    pub(crate) python: Option<PathBuf>,
    /// Where values that do not fit into memory wait.
    pub(crate) temp_dir: Option<PathBuf>,
    /// No kernels in PTX, to see whether those are what goes wrong.
    pub(crate) no_ptx: bool,
    /// Products of bytes on GPUs, or none, whatever the GPU is quick at.
    pub(crate) gpu_int8: Option<bool>,
    /// Matrix units that drivers have died of are tried by another process before they are used.
    pub(crate) tries_gpus: bool,
    pub(crate) hf_endpoint: Option<String>,
    pub(crate) hf_token: Option<String>,
    /// Where Hugging Face's tools keep downloads; `nino pull` shares it.
    pub(crate) hf_cache: Option<PathBuf>,
    /// Folders of model files.
    pub(crate) models: Vec<PathBuf>,
    /// ComfyUI's folder, whose models are found by name.
    pub(crate) comfyui: Option<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) no_color: bool,
    /// What the terminal says it is, to know which pictures it draws.
    pub(crate) term: Option<String>,
    pub(crate) term_program: Option<String>,
    pub(crate) kitty: bool,
    /// Where stages put what they take and give; `None` where nobody wants that.
    pub(crate) capture: Option<PathBuf>,
}

impl Env {
    pub(crate) fn read() -> Result<Env, Usage> {
        Env::from(|name| std::env::var(name).ok())
    }

    /// The same where the config file may be broken: it is left out, and told.
    pub(crate) fn read_without_trust() -> Env {
        let var = |name: &str| std::env::var(name).ok();
        let problem = match Env::from(var) {
            Ok(env) => return env,
            Err(Usage(problem)) => problem,
        };
        let vars = |name: &str| var(name).filter(|v| !v.is_empty());
        let settings = Settings::of_variables(vars);
        Env {
            config_problem: Some(problem),
            ..Env::with(vars, settings)
        }
    }

    fn from(var: impl Fn(&str) -> Option<String>) -> Result<Env, Usage> {
        let var = |name: &str| var(name).filter(|v| !v.is_empty());
        let (config, named) = settings::config_path(var);
        let settings = Settings::read(var, config.as_deref(), named)?;
        Ok(Env::with(var, settings))
    }

    /// What variables say, beside settings that were read already.
    fn with(var: impl Fn(&str) -> Option<String> + Copy, settings: Settings) -> Env {
        let (config, _) = settings::config_path(var);
        let base = var("XDG_CACHE_HOME")
            .or_else(|| var("LOCALAPPDATA"))
            .map(PathBuf::from)
            .or_else(|| var("HOME").map(|home| PathBuf::from(home).join(".cache")));
        let hf_home = var("HF_HOME").map(PathBuf::from).or_else(|| {
            // Hugging Face's tools use ~/.cache on every system.
            let home = var("HOME").or_else(|| var("USERPROFILE"))?;
            let cache = var("XDG_CACHE_HOME").map(PathBuf::from);
            let cache = cache.unwrap_or_else(|| PathBuf::from(home).join(".cache"));
            Some(cache.join("huggingface"))
        });
        Env {
            log: var("NINO_LOG"),
            config,
            config_problem: None,
            models: settings
                .text("models")
                .map(|v| std::env::split_paths(v).collect())
                .unwrap_or_default(),
            comfyui: settings.text("comfyui").map(PathBuf::from),
            home: var("HOME")
                .or_else(|| var("USERPROFILE"))
                .map(PathBuf::from),
            settings,
            cache_dir: var("NINO_CACHE")
                .map(PathBuf::from)
                .or_else(|| base.map(|b| b.join("nino"))),
            data_dir: var("XDG_DATA_HOME")
                .or_else(|| var("LOCALAPPDATA"))
                .map(PathBuf::from)
                .or_else(|| var("HOME").map(|home| PathBuf::from(home).join(".local/share")))
                .map(|data| data.join("nino")),
            python: var("VIRTUAL_ENV").map(PathBuf::from),
            temp_dir: var("TMPDIR").map(PathBuf::from),
            no_ptx: var("NINO_PTX").is_some_and(|v| v == "0"),
            gpu_int8: var("NINO_GPU_INT8").map(|v| v != "0"),
            tries_gpus: var("NINO_GPU_TRIAL").is_none_or(|v| v != "0"),
            hf_endpoint: var("HF_ENDPOINT"),
            hf_token: var("HF_TOKEN"),
            hf_cache: var("HF_HUB_CACHE")
                .map(PathBuf::from)
                .or_else(|| hf_home.map(|h| h.join("hub"))),
            no_color: var("NO_COLOR").is_some(),
            term: var("TERM"),
            term_program: var("TERM_PROGRAM"),
            kitty: var("KITTY_WINDOW_ID").is_some(),
            capture: capture_folder(var("NINO_CAPTURE").or_else(|| var("ROCM_NINODES_DEBUG"))),
        }
    }

    /// Where models are found by name.
    pub(crate) fn library(&self) -> Library {
        Library::new(LibraryPaths {
            models: self.models.clone(),
            comfyui: self.comfyui.clone(),
            downloads: self.hf_cache.clone(),
            home: self.home.clone(),
            short_names: crate::pull::short_names(),
        })
    }
}

/// The folder that stages are captured to: `1` is `captured` below the folder one is in, `0` none.
fn capture_folder(said: Option<String>) -> Option<PathBuf> {
    match said?.as_str() {
        "0" => None,
        "1" => Some(PathBuf::from("captured")),
        folder => Some(PathBuf::from(folder)),
    }
}

/// Where the config file is looked for.
pub(crate) fn config_path() -> Option<PathBuf> {
    let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    settings::config_path(var).0
}

/// Whether messages may be in color; a terminal is wanted for that, too.
pub(crate) fn colors() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Without a display, Mesa's layer that asks it for its GPU can only print an error about that;
/// this turns the layer off. Called first of all, while there is one thread.
pub(crate) fn hush_mesa() {
    let unset = |name| std::env::var_os(name).is_none();
    if cfg!(target_os = "linux") && unset("XDG_RUNTIME_DIR") && unset("MESA_VK_DEVICE_SELECT") {
        // SAFETY: no other thread runs yet that could read the environment.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}

/// A variable worth knowing about; a name that ends in `*` stands for all that begin so.
struct Known {
    name: &'static str,
    about: &'static str,
    /// Shown as `(set)`.
    secret: bool,
}

const fn known(name: &'static str, about: &'static str) -> Known {
    Known {
        name,
        about,
        secret: false,
    }
}

/// The first entry that matches explains a variable, so prefixes come after the names they cover.
const KNOWN: &[Known] = &[
    known("NINO_LOG", "log filter, as RUST_LOG: debug, nino_gpu=trace"),
    known(
        "NINO_CONFIG",
        "the config file, instead of nino/config.toml in the user's config folder",
    ),
    known(
        "NINO_GPU_TRIAL",
        "0: AMD matrix units are used without first being tried in a separate process",
    ),
    known("NINO_CACHE", "folder for compiled kernels and downloads"),
    known(
        "TMPDIR",
        "folder for values that do not fit in memory, instead of /var/tmp",
    ),
    known("NINO_PTX", "0: NVIDIA cards use WGSL kernels only, no PTX"),
    known(
        "NINO_GPU_INT8",
        "0: GPUs multiply int8 and q8_0 weights as floats; 1: in int8, even where that is slow",
    ),
    known(
        "NINO_REQUIRE_GPU",
        "1: tests fail if they find no GPU; no effect on nino itself",
    ),
    known("NO_COLOR", "no colors in messages"),
    known(
        "TERM_PROGRAM",
        "the terminal, which may show previews of `nino generate`",
    ),
    known("KITTY_WINDOW_ID", "kitty, which shows previews"),
    known(
        "NINO_CAPTURE",
        "1 or a folder: writes inputs and outputs of stages to files, for `nino replay`; slow",
    ),
    known("ROCM_NINODES_DEBUG", "the same as NINO_CAPTURE"),
    known("HF_ENDPOINT", "where `nino pull` downloads from"),
    Known {
        name: "HF_TOKEN",
        about: "access token for `nino pull`",
        secret: true,
    },
    known("HF_HUB_CACHE", "folder that `nino pull` downloads to"),
    known("HF_HOME", "`nino pull` downloads to the hub folder in it"),
    known(
        "VK_ICD_FILENAMES",
        "only these Vulkan drivers are loaded (older name of VK_DRIVER_FILES)",
    ),
    known("VK_DRIVER_FILES", "only these Vulkan drivers are loaded"),
    known("VK_ADD_DRIVER_FILES", "these Vulkan drivers are loaded too"),
    known(
        "VK_LOADER_DRIVERS_SELECT",
        "only Vulkan drivers that match are loaded",
    ),
    known(
        "VK_LOADER_DRIVERS_DISABLE",
        "Vulkan drivers that match are not loaded",
    ),
    known("VK_LOADER_DEBUG", "log level of the Vulkan loader"),
    known(
        "VK_INSTANCE_LAYERS",
        "Vulkan layers; validation layers are slow",
    ),
    known("VK_LAYER_PATH", "where Vulkan layers are looked for"),
    known(
        "AMD_VULKAN_ICD",
        "RADV or AMDVLK where both are installed; RADV is the one to use",
    ),
    known(
        "DISABLE_LAYER_AMD_SWITCHABLE_GRAPHICS_1",
        "1 turns off AMD's layer that hides one of two GPUs",
    ),
    known(
        "MESA_VK_DEVICE_SELECT",
        "Mesa shows this device first, or alone with a trailing !",
    ),
    known(
        "MESA_VK_VERSION_OVERRIDE",
        "Mesa claims another Vulkan version; can break kernels",
    ),
    known("DRI_PRIME", "which of two GPUs Mesa shows first"),
    known(
        "RADV_DEBUG",
        "debug switches of AMD's Mesa driver; most make it slower",
    ),
    known(
        "RADV_PERFTEST",
        "experimental switches of AMD's Mesa driver",
    ),
    known("RADV_*", "a setting of AMD's Mesa driver"),
    known("ACO_DEBUG", "debug switches of Mesa's AMD shader compiler"),
    known(
        "LP_NUM_THREADS",
        "threads of lavapipe, the software GPU; 0 makes it slow",
    ),
    known("WGPU_*", "read by wgpu's examples, not by nino"),
    known(
        "HSA_OVERRIDE_GFX_VERSION",
        "ROCm only: makes it treat the card as another; no effect here",
    ),
    known("HSA_*", "ROCm only; no effect here"),
    known(
        "HIP_VISIBLE_DEVICES",
        "ROCm only; here --device gpu:N chooses the card",
    ),
    known("HIP_*", "ROCm only; no effect here"),
    known(
        "ROCR_VISIBLE_DEVICES",
        "ROCm only; here --device gpu:N chooses the card",
    ),
    known(
        "CUDA_VISIBLE_DEVICES",
        "CUDA only; here --device gpu:N chooses the card",
    ),
    known("GPU_MAX_HW_QUEUES", "ROCm only; no effect here"),
    known(
        "MIOPEN_*",
        "ROCm's convolution library; no effect here, nino has its own kernels",
    ),
    known("PYTORCH_*", "PyTorch only; no effect here"),
    known("RAYON_NUM_THREADS", "use --threads or NINO_THREADS instead"),
    known("RUST_BACKTRACE", "1 prints where a bug happened"),
];

/// A variable that is set, as `nino doctor` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SetVariable {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) about: &'static str,
    /// Begins with `NINO_` and means nothing: most likely a slip of the pen.
    pub(crate) unknown: bool,
}

/// Variables that are set and matter, sorted by name.
pub(crate) fn listed() -> Vec<SetVariable> {
    let vars = std::env::vars_os().filter_map(|(name, value)| {
        Some((
            name.into_string().ok()?,
            value.to_string_lossy().into_owned(),
        ))
    });
    listed_of(vars)
}

fn listed_of(vars: impl Iterator<Item = (String, String)>) -> Vec<SetVariable> {
    let mut found: Vec<SetVariable> = vars
        .filter(|(name, _)| !name.starts_with("NINO_TEST_"))
        .filter_map(|(name, value)| {
            let known = KNOWN.iter().find(|k| matches(k.name, &name));
            let mut settings = settings::KEYS.iter();
            let setting = settings.find(|(key, _)| settings::variable(key) == name);
            let about = known.map(|k| k.about).or(setting.map(|(_, about)| *about));
            let unknown = about.is_none() && name.starts_with("NINO_");
            let about = match about {
                Some(about) => about,
                None if unknown => "not a variable that nino knows",
                None => return None,
            };
            let secret = known.is_some_and(|k| k.secret);
            let value = if secret { "(set)".to_owned() } else { value };
            Some(SetVariable {
                name,
                value,
                about,
                unknown,
            })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == name, |prefix| name.starts_with(prefix))
}
