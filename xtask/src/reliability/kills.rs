//! `cargo xtask kills`: runs that are killed at a random moment. What was at the output's place
//! must be there whole, old or new, and the next run must leave nothing of the killed one behind.

use super::{Folder, Options, Random, args, files, nino, text};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A verb with its output.
struct Verb {
    name: &'static str,
    args: Vec<String>,
    output: &'static str,
}

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::new(words, 100)?;
    let folder = Folder::new("kills")?;
    let inputs = folder.at("inputs");
    std::fs::create_dir(&inputs)?;
    let verbs = verbs(&inputs)?;
    println!("seed {}, {} kills", options.seed, options.runs);
    // How each output looks, and how long it takes to make.
    let mut whole = Vec::new();
    for verb in &verbs {
        let began = Instant::now();
        finish(&options, &folder, verb)?;
        whole.push((std::fs::read(folder.at(verb.output))?, began.elapsed()));
        std::fs::remove_file(folder.at(verb.output))?;
    }
    let (mut hit, mut orphans) = (0, 0);
    for i in 0..options.runs {
        let mut random = Random(options.seed.wrapping_mul(1_000_003).wrapping_add(i as u64));
        let chosen = random.below(verbs.len());
        let (verb, (expected, takes)) = (&verbs[chosen], &whole[chosen]);
        let output = folder.at(verb.output);
        let old = (random.below(2) == 0).then_some(b"what was there before".to_vec());
        match &old {
            Some(old) => std::fs::write(&output, old)?,
            None => drop(std::fs::remove_file(&output)),
        }
        let mut child = start(&options, &folder, verb)?;
        std::thread::sleep(Duration::from_secs_f64(
            takes.as_secs_f64() * random.share(),
        ));
        hit += usize::from(child.try_wait()?.is_none());
        child.kill()?;
        child.wait()?;
        let found = std::fs::read(&output).ok();
        if found != old && found.as_ref() != Some(expected) {
            bail!("kill {i}: {} left half a {}", verb.name, verb.output);
        }
        orphans += strangers(&folder, &verbs)?;
        finish(&options, &folder, verb)?;
        if std::fs::read(&output)? != *expected {
            bail!(
                "kill {i}: the next {} made another {}",
                verb.name,
                verb.output
            );
        }
        let left = strangers(&folder, &verbs)?;
        if left > 0 {
            bail!("kill {i}: {left} files of a killed {} are left", verb.name);
        }
    }
    println!(
        "{} kills, {hit} of them before the end: no output was half written, and none of {orphans} \
         temporary files was left after the next run",
        options.runs
    );
    Ok(())
}

fn verbs(inputs: &Path) -> Result<Vec<Verb>> {
    let (model, latent) = (inputs.join("model.safetensors"), inputs.join("in.latent"));
    files::checkpoint(&model, "sd15", "first_stage_model.")?;
    files::latent(&latent, &[1, 4, 3, 24, 24])?;
    let clip = crate::tree::root().join("goldens/models/wan21.safetensors");
    let picture = [
        "generate", "a fox", "--steps", "2", "--seed", "1", "--device", "cpu", "-o",
    ];
    let convert = ["convert", &text(&model), "--type", "q8_0", "--force"];
    let decode = [
        "decode",
        &text(&latent),
        "--vae",
        &text(&clip),
        "--device",
        "cpu",
        "-o",
    ];
    let verb = |name, words: &[&str], output| Verb {
        name,
        args: args(words),
        output,
    };
    Ok(vec![
        verb("generate", &picture, "out.png"),
        verb("convert", &convert, "out.gguf"),
        verb("decode", &decode, "out.y4m"),
    ])
}

fn start(options: &Options, folder: &Folder, verb: &Verb) -> Result<std::process::Child> {
    let mut words = verb.args.clone();
    words.push(text(&folder.at(verb.output)));
    let mut command = nino(options, &folder.0, &words);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("nino does not start")
}

fn finish(options: &Options, folder: &Folder, verb: &Verb) -> Result<()> {
    let status = start(options, folder, verb)?.wait()?;
    if !status.success() {
        bail!("{} failed: {status}", verb.name);
    }
    Ok(())
}

/// Files in the folder that nobody asked for. A sampled latent whose picture was not written yet is
/// kept on purpose.
fn strangers(folder: &Folder, verbs: &[Verb]) -> Result<usize> {
    let known = |name: &str| {
        ["inputs", "cache"].contains(&name)
            || name.ends_with(".latent") && !name.starts_with('.')
            || verbs.iter().any(|verb| verb.output == name)
    };
    let entries = std::fs::read_dir(&folder.0)?.flatten();
    let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| !known(name)).count())
}
