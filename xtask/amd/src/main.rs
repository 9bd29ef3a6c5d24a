//! `cargo xtask amd`: looks at nino's kernels as AMD's compiler sees them. A process for each
//! family does the work, since the driver shows one family to a process.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a command-line tool

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use nino_models::workload::{WORKLOADS, Workload};
use xtask_amd::card;
use xtask_amd::chip::CHIPS;
use xtask_amd::family::{Report, examine};
use xtask_amd::matrices;
use xtask_amd::mesa::{Mesa, VERSION};
use xtask_amd::print;
use xtask_amd::radv::Unavailable;
use xtask_amd::shares;
use xtask_amd::table::Table;
use xtask_amd::tiles::rank;

const USAGE: &str = "\
Usage: cargo xtask amd [options]

  --family A,B      only these families of chips (all: polaris10, vega10, navi10, navi21, navi23,
                    navi31, gfx1151, gfx1201)
  --workload A,B    only these workloads (all: sd15, sdxl, sd-vae, sd-vae-1024, flux, wan,
                    qwen-image)
  --json            everything found, as JSON
  --times           only the table of predicted times
  --tiles NAME      only the tiles that products, convolutions and attention could have, ranked, where
                    the name of what is computed contains this
  --untuned         with the tiles that other vendors' cards get
  --isa KERNEL      also the machine code of kernels whose name contains this, on standard error
  --check           fail on a compile error, a spill or fewer waves than docs/amd-kernels.tsv says
  --if-driver       with --check: succeed where there is no driver
  --update          write docs/amd-kernels.tsv and crates/nino-gpu/src/shares.tsv anew
  --matrices        only run the GPU's tests on a software GPU that has matrix units (also with
                    --if-driver)";

#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // flags of a command line
struct Options {
    families: Vec<String>,
    workloads: Vec<String>,
    json: bool,
    times: bool,
    untuned: bool,
    check: bool,
    if_driver: bool,
    update: bool,
    matrices: bool,
    tiles: Option<String>,
    isa: Option<String>,
    /// This process's own family, in the processes that do the work.
    examine: Option<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            let unavailable = e.is::<Unavailable>();
            ExitCode::from(if unavailable { UNAVAILABLE } else { 1 })
        }
    }
}

/// How a process ends where the driver cannot be opened.
const UNAVAILABLE: u8 = 3;
/// How the unpacked C library's loader ends where this program was built for a newer one.
const NOT_STARTED: i32 = 127;

/// Whether the check, if there was one, passed.
fn run() -> Result<bool> {
    let Some(options) = options()? else {
        println!("{USAGE}");
        return Ok(true);
    };
    let workloads = options.workloads()?;
    if let (Some(family), Some(wanted)) = (&options.examine, &options.tiles) {
        print!("{}", rank(family, wanted)?);
        return Ok(true);
    }
    if let Some(family) = &options.examine {
        let report = examine(family, &workloads, options.isa.as_deref(), options.untuned)?;
        serde_json::to_writer(std::io::stdout(), &report)?;
        return Ok(true);
    }
    if options.matrices {
        return match matrices::check(&target_folder(), &root()) {
            Ok(passed) => passed.map(|()| true),
            Err(e) if options.if_driver => {
                println!("kernels on matrix units are not run: {e:#}");
                Ok(true)
            }
            Err(e) => Err(e),
        };
    }
    let mesa = match Mesa::find_or_fetch(&target_folder()) {
        Ok(mesa) => mesa,
        Err(e) if options.if_driver => {
            println!("AMD's kernels are not checked: {e:#}");
            return Ok(true);
        }
        Err(e) => return Err(e),
    };
    if options.tiles.is_some() {
        for text in each_family(&options, &mesa)? {
            print!("{}", String::from_utf8_lossy(&text));
        }
        return Ok(true);
    }
    let written = match each_family(&options, &mesa) {
        Err(e) if options.if_driver && e.is::<Unavailable>() => {
            println!("AMD's kernels are not checked: {e:#}");
            return Ok(true);
        }
        written => written?,
    };
    let reports: Vec<Report> = written
        .iter()
        .map(|text| serde_json::from_slice(text).context("the report is cut short"))
        .collect::<Result<_>>()?;
    if options.json {
        serde_json::to_writer_pretty(std::io::stdout(), &reports)?;
        println!();
    } else if !options.check && !options.update {
        if !options.times {
            reports.iter().for_each(|r| print!("{}", print::kernels(r)));
        }
        print!("{}", print::times(&reports));
    }
    let path = root().join("docs/amd-kernels.tsv");
    if options.update {
        if !options.families.is_empty() || !options.workloads.is_empty() {
            bail!("--update writes every family and workload; leave out --family and --workload");
        }
        std::fs::write(&path, Table::of(&reports).text(VERSION))?;
        std::fs::write(
            root().join("crates/nino-gpu/src/shares.tsv"),
            shares::table(&reports),
        )?;
        println!("wrote docs/amd-kernels.tsv and crates/nino-gpu/src/shares.tsv");
    }
    if options.check {
        return check(&path, &reports, options.whole());
    }
    Ok(true)
}

fn check(path: &Path, reports: &[Report], whole: bool) -> Result<bool> {
    let text = std::fs::read_to_string(path).with_context(|| format!("no {}", path.display()))?;
    let table = Table::parse(&text)?;
    let losses = table.losses(reports);
    losses.iter().for_each(|loss| println!("{loss}"));
    let (now, kernels) = (
        Table::of(reports),
        reports.iter().map(|r| r.kernels.len()).sum::<usize>(),
    );
    let changes = if whole { table.changes(&now) } else { 0 };
    if changes > 0 {
        println!(
            "{changes} lines differ from the table; `cargo xtask amd --update` writes it anew"
        );
    }
    println!(
        "{kernels} kernels of {} families: {} worse than the table",
        reports.len(),
        losses.len()
    );
    Ok(losses.is_empty())
}

impl Options {
    fn workloads(&self) -> Result<Vec<Workload>> {
        if self.workloads.is_empty() {
            return Ok(WORKLOADS.to_vec());
        }
        let named = |w: &String| Workload::named(w).map_err(anyhow::Error::msg);
        self.workloads.iter().map(named).collect()
    }

    fn whole(&self) -> bool {
        self.families.is_empty() && self.workloads.is_empty()
    }
}

/// Nothing where help is asked for.
fn options() -> Result<Option<Options>> {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} wants a value"))
        };
        let list = |text: String| text.split(',').map(str::to_owned).collect();
        match word.as_str() {
            "--family" => options.families = list(value()?),
            "--workload" => options.workloads = list(value()?),
            "--tiles" => options.tiles = Some(value()?),
            "--isa" => options.isa = Some(value()?),
            "--examine" => options.examine = Some(value()?),
            "--json" => options.json = true,
            "--times" => options.times = true,
            "--untuned" => options.untuned = true,
            "--check" => options.check = true,
            "--if-driver" => options.if_driver = true,
            "--update" => options.update = true,
            "--matrices" => options.matrices = true,
            "-h" | "--help" => return Ok(None),
            _ => bail!("unknown option {word}\n\n{USAGE}"),
        }
    }
    Ok(Some(options))
}

/// What each family's process wrote. As many at a time as there are cores: each uses one.
fn each_family(options: &Options, mesa: &Mesa) -> Result<Vec<Vec<u8>>> {
    let known = || CHIPS.iter().map(|c| c.family.to_owned()).collect();
    let families: Vec<String> = if options.families.is_empty() {
        known()
    } else {
        options.families.clone()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut written = Vec::new();
    for some in families.chunks(cores.clamp(1, families.len().max(1))) {
        let begin = |family: &String| spawn(options, mesa, family);
        let children = some.iter().map(begin).collect::<Result<Vec<_>>>()?;
        for (child, family) in children.into_iter().zip(some) {
            let done = child.wait_with_output()?;
            if !done.status.success() {
                let told = String::from_utf8_lossy(&done.stderr);
                let why = told.lines().rev().find_map(|l| l.strip_prefix("error: "));
                let status = done.status.to_string();
                // The unpacked C library's loader says what it lacks in its last line.
                let started = done.status.code() != Some(NOT_STARTED);
                let why = why.or_else(|| told.lines().last().filter(|_| !started));
                let why = why.unwrap_or(&status).to_owned();
                if !started || done.status.code() == Some(i32::from(UNAVAILABLE)) {
                    return Err(Unavailable(format!("{family}: {why}")).into());
                }
                bail!("{family} cannot be compiled for: {why}");
            }
            written.push(done.stdout);
        }
    }
    Ok(written)
}

fn spawn(options: &Options, mesa: &Mesa, family: &str) -> Result<std::process::Child> {
    let mut command = card::command(mesa, family, &std::env::current_exe()?)?;
    command.args(["--examine", family]);
    if !options.workloads.is_empty() {
        command.args(["--workload", &options.workloads.join(",")]);
    }
    if options.untuned {
        command.arg("--untuned");
    }
    if let Some(tiles) = &options.tiles {
        command.args(["--tiles", tiles]);
    }
    if let Some(isa) = &options.isa {
        command.args(["--isa", isa]);
    } else {
        // Read only where it fails: LLVM tells of every kernel that it does not know the chip.
        command.stderr(Stdio::piped());
    }
    command.stdout(Stdio::piped());
    Ok(command.spawn()?)
}

/// Where cargo builds, two folders above this program, and the driver lies beside.
fn target_folder() -> PathBuf {
    let built = std::env::current_exe().ok();
    let target = built.as_deref().and_then(|p| p.parent()?.parent());
    target.unwrap_or(Path::new("target")).join("amd")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
