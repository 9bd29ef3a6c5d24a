//! What a command line asks `generate` for: a job for each prompt.

use super::from::Flags;
use super::{model, prompts, request};
use crate::args::{BatchArg, GenerateArgs, LoraArg, MAX_BATCH};
use crate::device::Choice;
use crate::env::Env;
use crate::overwrite::Guard;
use crate::plural::count;
use crate::printer;
use anyhow::Result;
use nino_engine::{
    Blend, Checkpoint, EngineError, GenerateRequest, ModelKind, Preview, Store, largest_batch,
    plan_generate,
};

/// One prompt, with the model as its LoRAs make it.
pub(super) struct Job {
    pub(super) model: Checkpoint,
    pub(super) request: GenerateRequest,
    /// Those of the flags and of the prompt.
    pub(super) loras: Vec<LoraArg>,
    /// What repeats the picture.
    pub(super) flags: Flags,
}

/// All prompts of the command line, of which there is at least one, for a model.
pub(super) fn read(
    args: &GenerateArgs,
    mut model: Checkpoint,
    choice: &Choice,
    flags: &Flags,
    env: &Env,
) -> Result<Vec<Job>> {
    let prompts = prompts::read(args)?;
    model.diffusion.blend = Blend::rescaled(args.sampling.cfg_rescale as f32);
    if let Some(reuse) = args.sampling.step_cache {
        model.diffusion = model.diffusion.with_step_reuse(reuse.0)?;
    }
    let embeddings = env.library().folders(ModelKind::Embedding)?;
    let mut jobs: Vec<Job> = Vec::new();
    for prompt in prompts {
        let model = model::with_loras(model.clone(), &prompt.loras, env)?;
        let text = prompts::understood(&prompt.text, &model);
        let mut request = request::request(args, &text, &model, &choice.settings, env)?;
        request.embeddings.clone_from(&embeddings);
        // Every prompt has the same seeds, so that their pictures can be compared.
        if let Some(first) = jobs.first() {
            request.seed = first.request.seed;
        }
        jobs.push(Job {
            model,
            request,
            loras: [&args.model.lora[..], &prompt.loras].concat(),
            flags: flags.with_loras(&prompt.loras),
        });
    }
    Ok(jobs)
}

/// Makes as many pictures at a time as stay on the device, where the flags ask for that, and says
/// how many. The longest prompt decides, which takes the most memory.
pub(super) fn fill_batch(args: &GenerateArgs, jobs: &mut [Job], store: &Store) -> Result<()> {
    let longest = jobs.iter().max_by_key(|job| job.request.prompt.len());
    let Some(longest) = longest.filter(|_| args.batch == BatchArg::Max) else {
        return Ok(());
    };
    let most = largest_batch(store, &longest.model, &longest.request, MAX_BATCH)?;
    printer::note(&format!(
        "--batch max: a batch of {}",
        count(most, "picture")
    ));
    for job in jobs {
        job.request.batch = most;
        job.flags.set("batch", most);
    }
    Ok(())
}

/// An error where the run does not fit; else the store knows its plans. The longest prompt is
/// planned, which takes the most memory.
pub(super) fn plan(
    jobs: &[Job],
    store: &Store,
    preview: Option<&Preview>,
) -> Result<(), EngineError> {
    let Some(longest) = jobs.iter().max_by_key(|job| job.request.prompt.len()) else {
        return Ok(());
    };
    let request = GenerateRequest {
        preview: preview.cloned(),
        ..longest.request.clone()
    };
    plan_generate(store, &longest.model, &request)?;
    Ok(())
}

/// What a run reads, and must not write over.
pub(super) fn guard(args: &GenerateArgs, model: Option<&Checkpoint>, env: &Env) -> Guard {
    let library = env.library();
    let start = &args.start;
    let inputs = [
        ("the --image", &start.image),
        ("the --mask", &start.mask),
        ("the --latent", &start.latent),
        ("the file of --from", &args.from_file),
        ("the file of --prompts", &args.prompts),
    ];
    let inputs = inputs
        .into_iter()
        .filter_map(|(what, path)| Some((what, library.find_input(path.as_deref()?))));
    let model = model.map(|model| ("the model", model.path.clone()));
    Guard {
        inputs: inputs.chain(model).collect(),
        force: args.force,
    }
}
