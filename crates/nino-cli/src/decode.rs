//! `nino decode`, `nino encode` and `nino plan decode`: between latents and pictures.

mod beside;
mod report;
mod sink;

use crate::args::{
    ChunkArg, DecodeArgs, EncodeArgs, HowArgs, PlanDecodeArgs, PrecisionArg, TileArg,
};
use crate::device::{self, Choice, Opened};
use crate::env::Env;
use crate::failure::Usage;
use crate::generate::model::file_of;
use crate::interrupt;
use crate::naming::{is_folder, make_folder_of, unused};
use crate::overwrite::{Guard, latent_name};
use crate::plan::{Site, fitted};
use crate::printer::{self, Bar, Printer};
use crate::settings::Settings;
use crate::size::Size;
use crate::stdout;
use anyhow::Result;
use beside::write_beside;
use nino_engine::device::Card;
use nino_engine::media::{Limits, ReadOptions, can_write, load_picture, open_video};
use nino_engine::{
    Chunking, Control, DecodeOptions, EncodeOptions, EngineError, Event, Latent, LatentFormat,
    LatentSize, ModelKind, OnPicture, Precision, Store, Tile, Tiling, VaeFile,
};
use report::{DecodeReport, EncodeReport, PlanReport};
use sink::Sink;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(crate) fn decode(args: &DecodeArgs, env: &Env, printer: Printer) -> Result<()> {
    let started = Instant::now();
    let choice = Choice::with_profile(&args.device, &args.profile, env)?;
    let vae = vae_of(Some(&args.vae.vae), None, env)?;
    let format = args.vae.latent_format.as_deref();
    let options = options(&args.how, format, &vae, &choice.settings)?;
    let latent = Latent::open(&args.latent)?;
    let guard = Guard {
        inputs: vec![("the latent", args.latent.clone())],
        force: args.force,
    };
    let output = output_of(args, &latent, &vae)?;
    if stdout::is_meant(&output) {
        stdout::check("an image", printer.json)?;
    } else {
        guard.check(&output)?;
        make_folder_of(&output)?;
    }
    let mut sink = Sink::new(&output, &latent, &vae, args.fps.unwrap_or(16.0))?;
    tell_ineffective(args, &sink);
    let opened = device::open(&choice)?;
    let bar = printer.percent(PER_PART).in_units_of(PER_PART);
    let mut on_event = |event: Event| show(&bar, event);
    let mut control = Control {
        cancel: interrupt::flag(),
        on_event: &mut on_event,
    };
    let store = Store::keeping_nothing(opened.device.clone());
    let mut decode = |on_picture: &mut OnPicture<'_>| {
        nino_engine::decode(&store, &vae, &latent, &options, &mut control, on_picture)
    };
    let (decoded, sink) = if opened.tier.is_some() {
        write_beside(sink, decode)?
    } else {
        // A CPU has no time to spare, and pictures that wait would be of its budget.
        (
            decode(&mut |b, i, picture| sink.take(b, i, &picture))?,
            sink,
        )
    };
    let files = sink.finish()?;
    bar.finish_and_clear();
    if stdout::is_meant(&output) {
        return Ok(());
    }
    let report = DecodeReport::new(&decoded, &opened, &files, started.elapsed());
    printer.files(&files, &report)
}

pub(crate) fn encode(args: &EncodeArgs, env: &Env, printer: Printer) -> Result<()> {
    let started = Instant::now();
    let choice = Choice::with_profile(&args.device, &args.profile, env)?;
    let options = EncodeOptions {
        precision: precision_of(args.precision, &choice.settings)?,
        format: latent_format(args.vae.latent_format.as_deref())?,
        beside: 0,
    };
    let vae = vae_of(Some(&args.vae.vae), None, env)?;
    let reading = ReadOptions {
        limits: picture_limits(choice.device.budget),
        stop: interrupt::stop(),
    };
    let output = latent_file(args, printer)?;
    let to_stdout = stdout::is_meant(&output);
    let mut video = open_video(&args.picture, &reading)?;
    if !to_stdout {
        can_write(&output)?;
    }
    let opened = device::open(&choice)?;
    let bar = printer.percent(PER_PART).in_units_of(PER_PART);
    let mut on_event = |event: Event| show(&bar, event);
    let mut control = Control {
        cancel: interrupt::flag(),
        on_event: &mut on_event,
    };
    let store = Store::keeping_nothing(opened.device.clone());
    let encoded = if video.is_some() {
        let mut open = || match video.take() {
            None => open_video(&args.picture, &reading),
            taken => Ok(taken),
        };
        nino_engine::encode_video(&store, &vae, &mut open, &options, &mut control)?
    } else {
        let picture = load_picture(&args.picture, &reading.limits)?;
        nino_engine::encode(&store, &vae, &picture, &options, &mut control)?
    };
    let name = options
        .format
        .or_else(|| vae.assumed_format())
        .map(|f| f.name.to_owned());
    let metadata = name
        .into_iter()
        .map(|name| (nino_engine::FORMAT_KEY.to_owned(), name))
        .collect();
    if to_stdout {
        let mut out = std::io::stdout().lock();
        let name = Path::new("standard output");
        encoded.latent.write_to(&mut out, name, &metadata)?;
        out.flush()?;
        bar.finish_and_clear();
        return Ok(());
    }
    encoded.latent.save(&output, &metadata)?;
    bar.finish_and_clear();
    let report = EncodeReport::new(&encoded, &opened, &output, started.elapsed());
    printer.files(&[output], &report)
}

/// The file, or the folder of frames, that a decode writes; one that was not named is called as the
/// latent, and counted up where it is there.
fn output_of(args: &DecodeArgs, latent: &Latent, vae: &VaeFile) -> Result<PathBuf, EngineError> {
    let n_frames = vae.kind.n_frames(latent.frames);
    if latent.frames > 1 && vae.kind.time_scale().is_none() {
        return Err(EngineError::VideoLatent {
            frames: latent.frames,
            vae: vae.name.clone(),
        });
    }
    let still = n_frames == 1;
    let extension = if still { "png" } else { "webp" };
    Ok(match &args.output {
        Some(folder) if still && is_folder(folder) => named_after(&args.latent, folder, extension),
        Some(file) => file.clone(),
        None => named_after(&args.latent, Path::new(""), extension),
    })
}

/// The file that an encode writes, which may be written; or standard output.
fn latent_file(args: &EncodeArgs, printer: Printer) -> Result<PathBuf> {
    let output = match &args.output {
        Some(output) if stdout::is_meant(output) => {
            stdout::check("a latent", printer.json)?;
            return Ok(output.clone());
        }
        Some(folder) if is_folder(folder) => named_after(&args.picture, folder, "latent"),
        Some(file) => file.clone(),
        None => named_after(&args.picture, Path::new(""), "latent"),
    };
    let guard = Guard {
        inputs: vec![("the image", args.picture.clone())],
        force: args.force,
    };
    guard.check(&output)?;
    latent_name(&output)?;
    make_folder_of(&output)?;
    Ok(output)
}

/// `folder/fox.png` for `fox.latent`.
fn named_after(input: &Path, folder: &Path, extension: &str) -> PathBuf {
    let stem = input.file_stem().unwrap_or_default().to_string_lossy();
    unused(folder, &stem, extension)
}

/// Flags of videos change nothing in a picture.
fn tell_ineffective(args: &DecodeArgs, sink: &Sink) {
    let chunked = args.how.chunk != ChunkArg::Auto;
    for (flag, given) in [("--fps", args.fps.is_some()), ("--chunk", chunked)] {
        if given && sink.is_still() {
            printer::note(&format!(
                "{flag} has no effect: it is for videos, and this is an image"
            ));
        }
    }
}

/// What pictures and clips may unpack to: never more than the budget.
pub(crate) fn picture_limits(budget: Option<u64>) -> Limits {
    budget.map_or_else(Limits::default, Limits::within)
}

/// `nino plan decode`, for this machine or for a card.
pub(crate) fn plan(
    args: &PlanDecodeArgs,
    card: Option<&'static Card>,
    env: &Env,
    printer: Printer,
) -> Result<()> {
    let site = Site::new(card, &args.device, &args.profile, env)?;
    let vae = vae_of(args.vae.as_deref(), args.spec.as_deref(), env)?;
    let format = args.latent_format.as_deref();
    let options = options(&args.how, format, &vae, &site.choice.settings)?;
    let size = match (&args.latent, args.size) {
        (_, Some(size)) => latent_size(size, args.frames, &vae)?,
        (Some(path), None) => Latent::open(path)?.size(),
        (None, None) => return Err(Usage("give the latent, or --size".to_owned()).into()),
    };
    let opened = site.open()?;
    let store = Store::keeping_nothing(opened.device.clone());
    let plan = nino_engine::plan_decode(&store, &vae, size, &options);
    let report = PlanReport::new(&fitted(plan, &opened)?, &vae, &opened);
    printer.text(&report)?;
    printer.document(&report)
}

/// A VAE's file, or the description of one.
pub(crate) fn vae_of(file: Option<&Path>, spec: Option<&str>, env: &Env) -> Result<VaeFile> {
    match (file, spec) {
        (Some(path), _) => Ok(VaeFile::open(&file_of(&[ModelKind::Vae], path, env)?)?),
        // Planning reads no weights, and yet asks where they are.
        (None, Some(name)) => Ok(VaeFile::synthetic(name, 0)?),
        (None, None) => Err(Usage("give --vae FILE or --spec NAME".to_owned()).into()),
    }
}

/// The size in the VAE's own units; pixels must be whole latent pixels.
fn latent_size(size: Size, frames: usize, vae: &VaeFile) -> Result<LatentSize, Usage> {
    let scale = vae.kind.scale();
    if !size.width.is_multiple_of(scale) || !size.height.is_multiple_of(scale) {
        return Err(Usage(format!(
            "{} takes sizes that are multiples of {scale}, not {size}",
            vae.name
        )));
    }
    let frames = match vae.kind.time_scale() {
        Some(time) => (frames.max(1) - 1).div_ceil(time) + 1,
        None if frames > 1 => {
            return Err(Usage(format!(
                "{} decodes single images, not {frames} frames",
                vae.name
            )));
        }
        None => 1,
    };
    Ok(LatentSize {
        frames,
        height: size.height / scale,
        width: size.width / scale,
    })
}

fn options(
    how: &HowArgs,
    latent_format: Option<&str>,
    vae: &VaeFile,
    settings: &Settings,
) -> Result<DecodeOptions, Usage> {
    let tile_size = settings.pick("tile_size", how.tile_size, str::parse)?;
    let tile_size = tile_size.unwrap_or(Tiling::default_for(vae).size);
    let chunking = match how.chunk {
        ChunkArg::Auto => Chunking::Auto,
        ChunkArg::Frames(n) => Chunking::Frames(n),
    };
    let tile = tile_of(how.tile, (Some(tile_size), how.overlap), settings)?;
    if tile == Tile::Auto && (how.tile_size.is_some() || how.overlap.is_some()) {
        let text =
            "--tile-size and --overlap need --tile fast; exact tiles have the size that fits";
        return Err(Usage(text.to_owned()));
    }
    Ok(DecodeOptions {
        precision: precision_of(how.precision, settings)?,
        tile,
        chunking,
        format: self::latent_format(latent_format)?,
        ..DecodeOptions::default()
    })
}

/// The flag's precision, or what is set elsewhere.
pub(crate) fn precision_of(
    flag: Option<PrecisionArg>,
    settings: &Settings,
) -> Result<Precision, Usage> {
    let chosen = settings.choose("precision", flag)?;
    Ok(precision(chosen.unwrap_or(PrecisionArg::Auto)))
}

/// The flags' tiles, or what is set elsewhere.
pub(crate) fn tile_of(
    flag: Option<TileArg>,
    (size, overlap): (Option<usize>, Option<usize>),
    settings: &Settings,
) -> Result<Tile, Usage> {
    let size = settings.pick("tile_size", size, str::parse)?.unwrap_or(768);
    let overlap = settings.pick("overlap", overlap, str::parse)?.unwrap_or(96);
    match settings.choose("tile", flag)?.unwrap_or(TileArg::Auto) {
        TileArg::Auto => Ok(Tile::Auto),
        TileArg::Fast if overlap >= size => Err(Usage(format!(
            "an overlap of {overlap} is too large for a tile of {size}"
        ))),
        TileArg::Fast => Ok(Tile::Fast(Tiling { size, overlap })),
    }
}

pub(crate) fn precision(arg: PrecisionArg) -> Precision {
    match arg {
        PrecisionArg::Auto => Precision::Auto,
        PrecisionArg::Fp32 => Precision::F32,
        PrecisionArg::Fp16 | PrecisionArg::Mixed => Precision::F16,
        PrecisionArg::Bf16 => Precision::Bf16,
    }
}

pub(crate) fn latent_format(name: Option<&str>) -> Result<Option<&'static LatentFormat>, Usage> {
    let Some(name) = name else { return Ok(None) };
    let format = LatentFormat::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = nino_engine::LATENT_FORMATS.iter().map(|f| f.name).collect();
        Usage(format!(
            "no latent format is called {name:?}; known are {}",
            known.join(", ")
        ))
    })?;
    Ok(Some(format))
}

/// Of the bar for each tile or chunk of frames.
pub(crate) const PER_PART: u64 = 1000;

/// Shows an event of work whose tiles or chunks are [`PER_PART`] of the bar each.
pub(crate) fn show(bar: &Bar, event: Event) {
    match event {
        Event::Stage(stage) => {
            bar.begin(stage.name());
            bar.set_prefix(stage.name());
        }
        Event::Progress { done, total } => {
            bar.set_length(total as u64 * PER_PART);
            bar.set_position(done as u64 * PER_PART);
            if total > 1 {
                bar.set_message(format!("{done}/{total}"));
            }
        }
        Event::Within(share) => {
            let whole = bar.position() / PER_PART * PER_PART;
            let part = (share * PER_PART as f64) as u64;
            bar.set_position(whole + part.min(PER_PART - 1));
        }
        // Only `generate` has previews and passes, and hears them itself.
        Event::Preview(_) | Event::PreviewClip(_) | Event::Pass { .. } => {}
        Event::Note(text) => bar.suspend(|| printer::note(&text)),
    }
}

/// `gpu:0 (NVIDIA H200, coop)`; of a card that is not here, `rx6600 (Radeon RX 6600, subgroup,
/// predicted)`.
pub(crate) fn device_text(opened: &Opened) -> String {
    let mut inside = vec![opened.model.clone()];
    inside.extend(opened.tier.map(|tier| tier.to_string()));
    if opened.is_predicted() {
        inside.push("predicted".to_owned());
    }
    format!("{} ({})", opened.name, inside.join(", "))
}
