//! `cargo xtask soak`: random requests, planned and run. What a run takes of memory must be at most
//! 5 % more than its plan and the program say, and never more than its budget.

use super::{Folder, Options, Random, args, files, nino, text};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// How much a run may take, as a share of what was planned.
const MOST: f64 = 1.05;

const SAMPLERS: [&str; 6] = ["euler", "heun", "dpmpp_2m", "dpmpp_2m_sde", "lms", "uni_pc"];

/// A request that can be planned and run.
struct Request {
    kind: &'static str,
    plan: Vec<String>,
    run: Vec<String>,
}

/// Model files; those that are not there are left out.
struct Models {
    folder: Folder,
    checkpoints: Vec<(&'static str, PathBuf)>,
    /// With channels of the latent, pixels for each of its pixels, and whether it makes clips.
    vaes: Vec<(&'static str, PathBuf, usize, usize, bool)>,
}

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::new(words, 300)?;
    let models = Models::new()?;
    println!("seed {}, {} runs", options.seed, options.runs);
    let (mut within, mut planned) = (0, 0);
    let mut worst: Vec<(&str, f64)> = Vec::new();
    for i in 0..options.runs {
        let mut random = Random(options.seed.wrapping_mul(1_000_003).wrapping_add(i as u64));
        let request = models.request(&mut random);
        let Some(outcome) = outcome(&options, &models, &request, &mut random)? else {
            continue;
        };
        planned += 1;
        let ratio = outcome.taken as f64 / outcome.promised as f64;
        match worst.iter_mut().find(|(kind, _)| *kind == request.kind) {
            Some((_, most)) => *most = most.max(ratio),
            None => worst.push((request.kind, ratio)),
        }
        let over = outcome.budget.is_some_and(|budget| outcome.taken > budget);
        if ratio <= MOST && !over {
            within += 1;
            continue;
        }
        println!(
            "run {i}: {:.1} MiB taken, {:.1} promised, budget {}: nino {}",
            mib(outcome.taken),
            mib(outcome.promised),
            outcome
                .budget
                .map_or("none".to_owned(), |b| format!("{:.1}", mib(b))),
            request.run.join(" ")
        );
    }
    for (kind, ratio) in &worst {
        println!("{kind:<12} at most {ratio:.3} of what was promised");
    }
    println!("{within} of {planned} runs within plan and budget");
    if within < planned || planned == 0 {
        bail!("{} runs took more than was promised", planned - within);
    }
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Models {
    fn new() -> Result<Models> {
        let folder = Folder::new("soak")?;
        let (sd1, sdxl, vae) = (
            folder.at("tiny_sd1.safetensors"),
            folder.at("tiny_sdxl.safetensors"),
            folder.at("sd_vae.safetensors"),
        );
        files::checkpoint(&sd1, "tiny_sd1", "")?;
        files::checkpoint(&sdxl, "tiny_sdxl", "")?;
        files::checkpoint(&vae, "sd15", "first_stage_model.")?;
        let root = crate::tree::root();
        let golden = |name: &str| root.join(format!("goldens/models/{name}.safetensors"));
        let data = |name: &str| root.join(format!("../shared/data/taesd/{name}.safetensors"));
        let mut vaes = vec![
            ("sd-vae", vae, 4, 8, false),
            ("taesd", golden("taesd"), 4, 8, false),
            ("taesd", data("taesd_decoder"), 4, 8, false),
            ("taef1", data("taef1_decoder"), 16, 8, false),
            ("clip", golden("wan21"), 4, 8, true),
        ];
        vaes.retain(|v| v.1.is_file());
        Ok(Models {
            folder,
            checkpoints: vec![("tiny-sd1", sd1), ("tiny-sdxl", sdxl)],
            vaes,
        })
    }

    fn request(&self, random: &mut Random) -> Request {
        match random.below(3) {
            0 => self.generate(random, None),
            1 => {
                let chosen = random.below(self.checkpoints.len());
                self.generate(random, Some(&self.checkpoints[chosen]))
            }
            _ => self.decode(random),
        }
    }

    fn generate(&self, random: &mut Random, model: Option<&(&'static str, PathBuf)>) -> Request {
        let side = |random: &mut Random| 64 * (1 + random.below(8));
        let size = format!("{}x{}", side(random), side(random));
        let steps = (1 + random.below(3)).to_string();
        let batch = (1 + random.below(2)).to_string();
        let mut common = args(&[
            "a fox", "--size", &size, "--steps", &steps, "--batch", &batch,
        ]);
        common.extend(args(&[
            "--device",
            "cpu",
            "--cfg",
            random.pick(&["1", "4"]),
        ]));
        if let Some((_, path)) = model {
            common.extend(["--model".to_owned(), text(path)]);
        }
        let out = text(&self.folder.at("out.png"));
        let sampler = random.pick(&SAMPLERS);
        let how = args(&["--sampler", sampler, "--seed", "1", "-o", &out]);
        Request {
            kind: model.map_or("nino-emoji", |m| m.0),
            plan: [args(&["plan", "generate"]), common.clone()].concat(),
            run: [args(&["generate"]), common, how].concat(),
        }
    }

    fn decode(&self, random: &mut Random) -> Request {
        let chosen = random.below(self.vaes.len());
        let (kind, vae, channels, scale, is_clip) = &self.vaes[chosen];
        let most = if *is_clip { 24 } else { 56 };
        let (h, w) = (8 + random.below(most), 8 + random.below(most));
        let frames = if *is_clip { 1 + random.below(4) } else { 1 };
        let latent = self.folder.at("in.latent");
        let shape = match is_clip {
            true => vec![1, *channels, frames, h, w],
            false => vec![1 + random.below(2), *channels, h, w],
        };
        // One that cannot be written is told by the run.
        let _ = files::latent(&latent, &shape);
        let size = format!("{}x{}", w * scale, h * scale);
        let common = args(&["--vae", &text(vae), "--device", "cpu"]);
        let mut plan = [
            args(&["plan", "decode"]),
            common.clone(),
            args(&["--size", &size]),
        ]
        .concat();
        if *is_clip {
            plan.extend(args(&["--frames", &(1 + 4 * (frames - 1)).to_string()]));
        }
        let out = self.folder.at(if *is_clip { "out.y4m" } else { "out.png" });
        let files = args(&[&text(&latent), "-o", &text(&out)]);
        Request {
            kind,
            plan,
            run: [args(&["decode"]), files, common].concat(),
        }
    }
}

struct Outcome {
    /// Bytes of the plan and the program.
    promised: u64,
    /// Bytes that were resident at most.
    taken: u64,
    budget: Option<u64>,
}

/// Plans and runs a request, in two of three cases within a budget that is less than it would
/// take; `None` where there is no plan.
fn outcome(
    options: &Options,
    models: &Models,
    request: &Request,
    random: &mut Random,
) -> Result<Option<Outcome>> {
    let folder = &models.folder.0;
    let Some(free) = promised(options, folder, &request.plan, None)? else {
        return Ok(None);
    };
    let share = 0.4 + 0.6 * random.share();
    let budget = (random.below(3) > 0).then_some((free as f64 * share) as u64);
    let promised = match budget {
        None => free,
        Some(_) => match promised(options, folder, &request.plan, budget)? {
            Some(promised) => promised,
            None => return Ok(None),
        },
    };
    let mut command = nino(options, folder, &request.run);
    if let Some(budget) = budget {
        command.args(["--budget", &format!("{budget}B")]);
    }
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let taken = resident(child.context("nino does not start")?)?;
    let Some(taken) = taken else {
        bail!("nino {} failed, which was planned", request.run.join(" "));
    };
    Ok(Some(Outcome {
        promised,
        taken,
        budget,
    }))
}

/// Bytes that a plan says it takes with the program; `None` where it is refused.
fn promised(
    options: &Options,
    folder: &Path,
    plan: &[String],
    budget: Option<u64>,
) -> Result<Option<u64>> {
    let mut command = nino(options, folder, plan);
    command.arg("--json");
    if let Some(budget) = budget {
        command.args(["--budget", &format!("{budget}B")]);
    }
    let said = command.output().context("nino does not start")?;
    if !said.status.success() {
        let why = String::from_utf8_lossy(&said.stderr);
        if budget.is_some() && why.contains("budget") {
            return Ok(None);
        }
        bail!("nino {}: {}", plan.join(" "), why.trim());
    }
    let document = String::from_utf8_lossy(&said.stdout);
    let bytes = number(&document, "predicted_peak_bytes").zip(number(&document, "program_bytes"));
    let (peak, program) = bytes.context("the plan has no such numbers")?;
    Ok(Some(peak + program))
}

/// The first number of that name in a JSON document of ours.
fn number(document: &str, name: &str) -> Option<u64> {
    let behind = document.split(&format!("\"{name}\":")).nth(1)?;
    let digits: String = behind
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// Waits for a run; bytes that were resident at most, `None` where it failed.
fn resident(mut child: Child) -> Result<Option<u64>> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let id = libc::pid_t::try_from(child.id())?;
    // Its few words fit the pipe, and are told where it failed.
    // SAFETY: waits for a child of ours and fills what it is given.
    let waited = unsafe { libc::wait4(id, &raw mut status, 0, usage.as_mut_ptr()) };
    if waited != id {
        bail!("cannot wait for nino: {}", std::io::Error::last_os_error());
    }
    if status != 0 {
        let mut said = String::new();
        if let Some(mut err) = child.stderr.take() {
            std::io::Read::read_to_string(&mut err, &mut said)?;
        }
        println!("{}", said.trim());
        return Ok(None);
    }
    // SAFETY: the call filled it; zeros are valid, too.
    let usage = unsafe { usage.assume_init() };
    Ok(Some(usage.ru_maxrss as u64 * 1024))
}
