//! A picture as the other dialects ask for it, turned into a graph and made like any other.

use crate::app::App;
use crate::chosen::{ChosenModel, Loaded, find_name};
use crate::error::Refused;
use crate::routes::blocking;
use crate::routes::prompt::{QueuePlace, Queued, Submission, submit};
use axum::http::StatusCode;
use nino_files::AtomicFile;
use nino_workflow::metadata::a1111::without_loras;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// A picture to make. What is not given is as the model wants it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recipe {
    /// May name LoRAs as A1111's prompts do: `<lora:name:0.8>`.
    pub(crate) prompt: String,
    pub(crate) negative: String,
    pub(crate) model: Option<String>,
    pub(crate) size: Option<(usize, usize)>,
    pub(crate) count: usize,
    pub(crate) seed: Option<u64>,
    pub(crate) steps: Option<usize>,
    pub(crate) cfg: Option<f64>,
    /// What a model that takes its guidance as an input is told.
    pub(crate) guidance: Option<f64>,
    pub(crate) sampler: Option<String>,
    pub(crate) scheduler: Option<String>,
    pub(crate) start: Option<Start>,
    pub(crate) hires: Option<Hires>,
}

/// Files of pictures that came in a request, which its graphs load. They are removed with this,
/// when the jobs have ended.
#[derive(Debug, Default)]
pub(crate) struct Inputs(Vec<PathBuf>);

impl Inputs {
    /// Keeps a picture, and gives its name in the input folder.
    pub(crate) fn keep(&mut self, app: &App, bytes: &[u8]) -> Result<String, Refused> {
        let folder = app.folders.input.join(INPUTS);
        let name = format!("{}.png", uuid::Uuid::new_v4());
        let failed = |e: &dyn std::fmt::Display| {
            Refused::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string())
        };
        std::fs::create_dir_all(&folder).map_err(|e| failed(&e))?;
        let path = folder.join(&name);
        AtomicFile::replace(&path, bytes).map_err(|e| failed(&e))?;
        self.0.push(path);
        Ok(format!("{INPUTS}/{name}"))
    }
}

impl Drop for Inputs {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The folder of [`Inputs`] in the input folder.
const INPUTS: &str = "api";

/// Removes inputs of requests that a server left behind which was killed, but for those that jobs
/// in the queue still want.
pub(crate) fn remove_left_inputs(app: &App) {
    let active = app.queue.active();
    let is_wanted = |name: &str| {
        let mut nodes = active
            .pending
            .iter()
            .filter_map(|job| job.prompt.as_object());
        let name = format!("{INPUTS}/{name}");
        nodes.any(|nodes| {
            let inputs = nodes.values().filter_map(|node| node["inputs"].as_object());
            inputs.flat_map(Map::values).any(|value| *value == name)
        })
    };
    let entries = std::fs::read_dir(app.folders.input.join(INPUTS));
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let stem = name.strip_suffix(".png").unwrap_or_default();
        if uuid::Uuid::try_parse(stem).is_ok() && !is_wanted(&name) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A picture to start from.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    /// Its name in the input folder.
    pub(crate) image: String,
    /// The name of a mask whose red channel says where to paint.
    pub(crate) mask: Option<String>,
    pub(crate) denoise: f64,
    /// The files of both.
    pub(crate) inputs: Arc<Inputs>,
}

/// A second, larger pass.
#[derive(Clone, Debug)]
pub(crate) struct Hires {
    pub(crate) scale: f64,
    /// What enlarges between the passes: an upscaler, one of [`RESIZERS`], or, where it is `None`
    /// or begins with "Latent", the latent itself.
    pub(crate) upscaler: Option<String>,
    pub(crate) steps: Option<usize>,
    pub(crate) denoise: f64,
}

/// A1111's upscalers that are no network: none, and two ways to resize.
pub(crate) const RESIZERS: [(&str, &str); 3] = [
    ("None", "nearest-exact"),
    ("Lanczos", "lanczos"),
    ("Nearest", "nearest-exact"),
];

/// What became of a recipe.
pub(crate) struct Made {
    /// The files, as history has them: `filename`, `subfolder`, `type`.
    pub(crate) files: Vec<Value>,
    pub(crate) seed: u64,
    pub(crate) model: String,
    pub(crate) size: (usize, usize),
    pub(crate) steps: usize,
    pub(crate) cfg: f64,
    pub(crate) sampler: String,
    pub(crate) scheduler: String,
}

/// The node of a graph for [`run`] that saves its pictures.
pub(crate) const SAVES: &str = "9";

/// Makes pictures and waits for them. A client that goes away meanwhile stops them. Each picture is
/// a job of its own with a seed of its own, so that each can be made again by what it says of
/// itself.
pub(crate) async fn make(app: &Arc<App>, recipe: Recipe) -> Result<Made, Refused> {
    let own = Arc::clone(app);
    let inputs = recipe.start.as_ref().map(|start| Arc::clone(&start.inputs));
    let (prompts, mut made) = blocking(move || {
        let random = || uuid::Uuid::new_v4().as_u128() as u64 >> 11;
        let first = recipe.seed.unwrap_or_else(random);
        let model = ChosenModel::named(&own.models, recipe.model.as_deref())?;
        let (prompt, made) = graph(&own, &model, &recipe, first)?;
        let mut prompts = vec![prompt];
        for i in 1..recipe.count.max(1) as u64 {
            prompts.push(graph(&own, &model, &recipe, first.wrapping_add(i))?.0);
        }
        Ok((prompts, made))
    })
    .await?;
    made.files = run(app, prompts, inputs.unwrap_or_default()).await?;
    Ok(made)
}

/// Runs graphs, waits for them, and gives the files of their nodes [`SAVES`] as history has them. A
/// client that goes away meanwhile stops them, and so does an interruption of one of them: then
/// what is done is given.
pub(crate) async fn run(
    app: &Arc<App>,
    prompts: Vec<Value>,
    inputs: Arc<Inputs>,
) -> Result<Vec<Value>, Refused> {
    let mut ended = app.queue.ended();
    let mut jobs = Vec::new();
    for prompt in prompts {
        let mut extra = Map::new();
        extra.insert("preview_method".to_owned(), json!("kept"));
        let submission = Submission {
            prompt,
            id: None,
            client: None,
            place: QueuePlace::Behind,
            extra,
            targets: None,
        };
        let (own, inputs) = (Arc::clone(app), Arc::clone(&inputs));
        let stop = move |queued: Queued| StopWhenDropped {
            app: own,
            id: queued.item.id.clone(),
            inputs,
        };
        jobs.push(submit(app, submission, stop).await?);
    }
    let mut files = Vec::new();
    for job in jobs {
        while app.queue.is_active(&job.id) {
            if app.queue.is_left(&job.id) || ended.changed().await.is_err() {
                break;
            }
        }
        let made = files_of(app, job.id.clone()).await?;
        if made.is_empty() {
            break;
        }
        files.extend(made);
    }
    if files.is_empty() && app.queue.is_stopping() {
        let text = "the server stopped before the picture was done: ask again later";
        return Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, text));
    }
    if files.is_empty() {
        let text = "the job was stopped before its picture was done";
        return Err(Refused::new(StatusCode::INTERNAL_SERVER_ERROR, text));
    }
    Ok(files)
}

/// The files that an ended job saved; none where it was stopped.
async fn files_of(app: &Arc<App>, id: String) -> Result<Vec<Value>, Refused> {
    let (journal, own) = (Arc::clone(app), id.clone());
    let history = blocking(move || Ok(journal.queue.journal.history_of(&own)?)).await?;
    let entry = &history[&id];
    let messages = entry["status"]["messages"].as_array().into_iter().flatten();
    for message in messages {
        if message[0] == "execution_error" {
            let text = message[1]["exception_message"].as_str().unwrap_or_default();
            return Err(Refused::new(StatusCode::INTERNAL_SERVER_ERROR, text));
        }
    }
    let files = entry["outputs"][SAVES]["images"].as_array();
    Ok(files.cloned().unwrap_or_default())
}

/// Stops a job that nobody waits for any more.
struct StopWhenDropped {
    app: Arc<App>,
    id: String,
    /// What the job reads.
    inputs: Arc<Inputs>,
}

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        // The journal is written away from the thread that answers requests. A device may take the
        // job until then. When the server stops, the next one would run it for nobody.
        let queue = &self.app.queue;
        if queue.is_active(&self.id) || queue.is_stopping() {
            let (app, id) = (Arc::clone(&self.app), self.id.clone());
            let inputs = Arc::clone(&self.inputs);
            tokio::task::spawn_blocking(move || {
                app.queue.cancel(&id);
                // The job finds its stop before it finds that they are gone.
                drop(inputs);
            });
        }
    }
}

/// The name of the upscaler's file that a client means.
pub(crate) fn upscaler_of(app: &App, wanted: &str) -> Option<String> {
    let names = app.models.names("upscale_models").unwrap_or_default();
    find_name(&names, wanted)
}

/// The graph of one picture of a recipe, and what was decided for it.
fn graph(
    app: &App,
    model: &ChosenModel,
    recipe: &Recipe,
    seed: u64,
) -> Result<(Value, Made), Refused> {
    let (defaults, unit) = (model.diffusion.defaults(), model.side());
    let size = recipe.size.unwrap_or((defaults.size, defaults.size));
    let whole = |side: usize| (side / unit * unit).max(unit);
    let (width, height) = (whole(size.0), whole(size.1));
    let steps = recipe.steps.unwrap_or(defaults.steps);
    let cfg = recipe.cfg.unwrap_or(f64::from(defaults.cfg));
    let sampler = recipe
        .sampler
        .clone()
        .unwrap_or_else(|| defaults.sampler.to_owned());
    let scheduler = recipe
        .scheduler
        .clone()
        .unwrap_or_else(|| defaults.scheduler.to_owned());
    let mut nodes = Map::new();
    let Loaded {
        model: mut diffusion,
        mut clip,
        vae,
    } = model.load(&mut nodes);
    let mut node = |id: &str, class: &str, inputs: Value| {
        nodes.insert(
            id.to_owned(),
            json!({ "class_type": class, "inputs": inputs }),
        );
        json!([id, 0])
    };
    let (prompt, loras) = without_loras(&recipe.prompt);
    let names = app.models.names("loras").unwrap_or_default();
    for (i, lora) in loras.iter().enumerate() {
        let (wanted, strength) = lora.split_once(':').unwrap_or((lora, "1"));
        let strength: f64 = strength
            .split(':')
            .next()
            .and_then(|s| s.parse().ok())
            .unwrap_or(1.0);
        let found = find_name(&names, wanted);
        let found = found.ok_or_else(|| Refused::bad(format!("there is no LoRA {wanted:?}")))?;
        let id = (100 + i).to_string();
        let inputs = json!({
            "model": diffusion, "clip": clip, "lora_name": found,
            "strength_model": strength, "strength_clip": strength,
        });
        diffusion = node(&id, "LoraLoader", inputs);
        clip = json!([id, 1]);
    }
    let mut positive = node(
        "6",
        "CLIPTextEncode",
        json!({ "text": prompt, "clip": clip }),
    );
    let wanted = recipe
        .guidance
        .filter(|_| model.diffusion.takes_own_guidance());
    if let Some(guidance) = wanted.or(defaults.guidance.map(f64::from)) {
        let inputs = json!({ "conditioning": positive, "guidance": guidance });
        positive = node("52", "FluxGuidance", inputs);
    }
    let negative = json!({ "text": recipe.negative, "clip": clip });
    let negative = node("7", "CLIPTextEncode", negative);
    let mut latent = match &recipe.start {
        None => {
            let mut size = json!({ "width": width, "height": height, "batch_size": 1 });
            // A model of clips makes a clip of one frame.
            let is_for_clips = model.diffusion.net().wants().frames;
            if is_for_clips {
                size["length"] = json!(1);
            }
            let class = match (is_for_clips, unit) {
                (true, 16) => {
                    size["vae"] = vae.clone();
                    "Wan22ImageToVideoLatent"
                }
                (true, _) => "EmptyHunyuanLatentVideo",
                (false, 16) => "EmptyFlux2LatentImage",
                (false, _) => "EmptyLatentImage",
            };
            node("5", class, size)
        }
        Some(start) => {
            let image = node("20", "LoadImage", json!({ "image": start.image }));
            let scaled = json!({
                "image": image, "upscale_method": "lanczos", "width": width, "height": height,
                "crop": "center",
            });
            let image = node("21", "ImageScale", scaled);
            node("22", "VAEEncode", json!({ "pixels": image, "vae": vae }))
        }
    };
    let mask = recipe.start.as_ref().and_then(|start| start.mask.as_ref());
    if let Some(mask) = mask {
        let mask = node(
            "24",
            "LoadImageMask",
            json!({ "image": mask, "channel": "red" }),
        );
        latent = node(
            "25",
            "SetLatentNoiseMask",
            json!({ "samples": latent, "mask": mask }),
        );
    }
    let sample = |latent: &Value, steps: usize, denoise: f64| {
        json!({
            "model": diffusion, "positive": positive, "negative": negative,
            "latent_image": latent, "seed": seed, "steps": steps, "cfg": cfg,
            "sampler_name": sampler, "scheduler": scheduler, "denoise": denoise,
        })
    };
    let denoise = recipe.start.as_ref().map_or(1.0, |start| start.denoise);
    let mut samples = node("3", "KSampler", sample(&latent, steps, denoise));
    if let Some(hires) = &recipe.hires {
        let upscaler = hires.upscaler.as_deref();
        let larger = if let Some(name) = upscaler.filter(|name| !name.starts_with("Latent")) {
            let side = |n: usize| (n as f64 * hires.scale / unit as f64).round() as usize * unit;
            let mut image = node("32", "VAEDecode", json!({ "samples": samples, "vae": vae }));
            let resizer = RESIZERS.iter().find(|(known, _)| *known == name);
            if resizer.is_none() {
                let file = upscaler_of(app, name);
                let file =
                    file.ok_or_else(|| Refused::bad(format!("there is no upscaler {name:?}")))?;
                let model = node("33", "UpscaleModelLoader", json!({ "model_name": file }));
                let inputs = json!({ "upscale_model": model, "image": image });
                image = node("34", "ImageUpscaleWithModel", inputs);
            }
            let method = resizer.map_or("lanczos", |(_, method)| method);
            let inputs = json!({
                "image": image, "upscale_method": method, "width": side(width),
                "height": side(height), "crop": "disabled",
            });
            let image = node("35", "ImageScale", inputs);
            node("36", "VAEEncode", json!({ "pixels": image, "vae": vae }))
        } else {
            let inputs = json!({
                "samples": samples, "upscale_method": "bislerp", "scale_by": hires.scale,
            });
            node("30", "LatentUpscaleBy", inputs)
        };
        let second = sample(&larger, hires.steps.unwrap_or(steps), hires.denoise);
        samples = node("31", "KSampler", second);
    }
    let images = node("8", "VAEDecode", json!({ "samples": samples, "vae": vae }));
    node(
        "9",
        "SaveImage",
        json!({ "images": images, "filename_prefix": "api/nino" }),
    );
    let made = Made {
        files: Vec::new(),
        seed,
        model: model.name.clone(),
        size: (width, height),
        steps,
        cfg,
        sampler: sampler.clone(),
        scheduler: scheduler.clone(),
    };
    Ok((Value::Object(nodes), made))
}
