// From the settings of the form to a graph as ComfyUI's API takes it, and back from what the server
// says of a picture.

const node = (class_type, inputs) => ({ class_type, inputs });

export function graphOf(s) {
  const graph = {};
  graph["4"] = node("CheckpointLoaderSimple", { ckpt_name: s.model });
  let model = ["4", 0], clip = ["4", 1];
  const vae = ["4", 2];
  s.loras.forEach((lora, i) => {
    const id = String(100 + i);
    graph[id] = node("LoraLoader", {
      model, clip, lora_name: lora.name, strength_model: lora.strength, strength_clip: lora.strength,
    });
    model = [id, 0];
    clip = [id, 1];
  });
  graph["6"] = node("CLIPTextEncode", { text: s.prompt, clip });
  graph["7"] = node("CLIPTextEncode", { text: s.negative, clip });
  let latent = ["5", 0];
  if (s.start) {
    graph["20"] = node("LoadImage", { image: s.start });
    graph["21"] = node("VAEEncode", { pixels: ["20", 0], vae });
    latent = ["21", 0];
    if (s.mask) {
      graph["22"] = node("LoadImageMask", { image: s.mask, channel: "red" });
      graph["23"] = node("SetLatentNoiseMask", { samples: latent, mask: ["22", 0] });
      latent = ["23", 0];
    }
    if (s.count > 1) {
      graph["24"] = node("RepeatLatentBatch", { samples: latent, amount: s.count });
      latent = ["24", 0];
    }
  } else {
    graph["5"] = node("EmptyLatentImage", { width: s.width, height: s.height, batch_size: s.count });
  }
  const sampler = (latent_image, steps, denoise) => node("KSampler", {
    model, positive: ["6", 0], negative: ["7", 0], latent_image, seed: s.seed, steps, cfg: s.cfg,
    sampler_name: s.sampler, scheduler: s.scheduler, denoise,
  });
  graph["3"] = sampler(latent, s.steps, s.start ? s.denoise : 1);
  let samples = ["3", 0];
  if (s.hires) {
    graph["30"] = node("LatentUpscaleBy", { samples, upscale_method: "bislerp", scale_by: s.hires.scale });
    graph["31"] = sampler(["30", 0], s.hires.steps, s.hires.denoise);
    samples = ["31", 0];
  }
  graph["8"] = node("VAEDecode", { samples, vae });
  let images = ["8", 0];
  if (s.upscaler) {
    graph["40"] = node("UpscaleModelLoader", { model_name: s.upscaler });
    graph["41"] = node("ImageUpscaleWithModel", { upscale_model: ["40", 0], image: images });
    images = ["41", 0];
  }
  graph["9"] = node("SaveImage", { images, filename_prefix: "nino" });
  return graph;
}

// The settings that a picture tells, with the names of the form.
export function settingsOf(about) {
  if (!about) return null;
  const first = (key) => about.settings[key]?.[0];
  const number = (key) => (first(key) === undefined ? undefined : Number(first(key)));
  const [width, height] = (first("size") ?? "").split("x").map(Number);
  const files = (folder) => about.files.filter((file) => file.folder === folder);
  return {
    prompt: first("prompt") ?? "",
    negative: first("negative") ?? "",
    seed: first("seed"),
    steps: number("steps"),
    cfg: number("cfg"),
    sampler: first("sampler"),
    scheduler: first("scheduler"),
    width: width || undefined,
    height: height || undefined,
    model: files("checkpoints")[0]?.name,
    loras: files("loras").map((file) => ({ name: file.name, strength: file.strength ?? 1 })),
  };
}
