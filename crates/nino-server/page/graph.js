// From the settings of the form to a graph as ComfyUI's API takes it, and back from what the server
// says of a picture.

const node = (class_type, inputs) => ({ class_type, inputs });

// Loads the model: a checkpoint, or a diffusion model with the files that belong to it.
function load(graph, s) {
  if (!s.parts) {
    graph["4"] = node("CheckpointLoaderSimple", { ckpt_name: s.model });
    return { model: ["4", 0], clip: ["4", 1], vae: ["4", 2] };
  }
  const isGguf = (name) => name.toLowerCase().endsWith(".gguf");
  graph["4"] = isGguf(s.model) ? node("UnetLoaderGGUF", { unet_name: s.model })
    : node("UNETLoader", { unet_name: s.model, weight_dtype: "default" });
  const { clip, type, vae } = s.parts;
  const end = clip.some(isGguf) ? "GGUF" : "";
  graph["50"] = clip.length > 1 ? node(`DualCLIPLoader${end}`, { clip_name1: clip[0], clip_name2: clip[1], type })
    : node(`CLIPLoader${end}`, { clip_name: clip[0], type });
  graph["51"] = node("VAELoader", { vae_name: vae });
  return { model: ["4", 0], clip: ["50", 0], vae: ["51", 0] };
}

// Pictures that the model looks at, one after the other.
function look(graph, s, vae, positive) {
  s.references.forEach((image, i) => {
    const [file, scaled, latent, said] = [60, 70, 80, 90].map((first) => String(first + i));
    graph[file] = node("LoadImage", { image });
    graph[scaled] = node("FluxKontextImageScale", { image: [file, 0] });
    graph[latent] = node("VAEEncode", { pixels: [scaled, 0], vae });
    graph[said] = node("ReferenceLatent", { conditioning: positive, latent: [latent, 0] });
    positive = [said, 0];
  });
  return positive;
}

// The latent of a clip, and the prompts with the picture that it begins with.
function clipLatent(graph, s, vae, prompts) {
  const size = { width: s.width, height: s.height, length: s.frames, batch_size: 1 };
  const start_image = s.start ? ["20", 0] : undefined;
  if (s.start) graph["20"] = node("LoadImage", { image: s.start });
  if (s.side === 16) {
    graph["5"] = node("Wan22ImageToVideoLatent", { vae, ...size, start_image });
    return { ...prompts, latent: ["5", 0] };
  }
  if (!s.start) {
    graph["5"] = node("EmptyHunyuanLatentVideo", size);
    return { ...prompts, latent: ["5", 0] };
  }
  graph["5"] = node("WanImageToVideo", { ...prompts, vae, ...size, start_image });
  return { positive: ["5", 0], negative: ["5", 1], latent: ["5", 2] };
}

export function graphOf(s) {
  const graph = {};
  let { model, clip, vae } = load(graph, s);
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
  let positive = ["6", 0], negative = ["7", 0];
  if (s.told !== null) {
    graph["52"] = node("FluxGuidance", { conditioning: positive, guidance: s.told });
    positive = ["52", 0];
  }
  positive = look(graph, s, vae, positive);
  let latent = ["5", 0];
  if (s.video) {
    ({ positive, negative, latent } = clipLatent(graph, s, vae, { positive, negative }));
  } else if (s.start) {
    graph["20"] = node("LoadImage", { image: s.start });
    graph["21"] = node("VAEEncode", { pixels: ["20", 0], vae });
    latent = ["21", 0];
    if (s.mask) {
      graph["22"] = node("LoadImageMask", { image: s.mask, channel: "red" });
      graph["23"] = node("SetLatentNoiseMask", { samples: latent, mask: ["22", 0] });
      latent = ["23", 0];
    }
  } else {
    const empty = s.side === 16 ? "EmptyFlux2LatentImage" : "EmptyLatentImage";
    graph["5"] = node(empty, { width: s.width, height: s.height, batch_size: 1 });
  }
  const sampler = (latent_image, steps, denoise) => node("KSampler", {
    model, positive, negative, latent_image, seed: s.seed, steps, cfg: s.cfg,
    sampler_name: s.sampler, scheduler: s.scheduler, denoise,
  });
  graph["3"] = sampler(latent, s.steps, s.start && !s.video ? s.denoise : 1);
  let samples = ["3", 0];
  if (s.hires && !s.video) {
    graph["30"] = node("LatentUpscaleBy", { samples, upscale_method: "bislerp", scale_by: s.hires.scale });
    graph["31"] = sampler(["30", 0], s.hires.steps, s.hires.denoise);
    samples = ["31", 0];
  }
  graph["8"] = node("VAEDecode", { samples, vae });
  let images = ["8", 0];
  if (s.video) {
    const how = { fps: s.fps, lossless: false, quality: 90, method: "default" };
    graph["9"] = node("SaveAnimatedWEBP", { images, filename_prefix: "nino", ...how });
    return graph;
  }
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
    model: (files("checkpoints")[0] ?? files("diffusion_models")[0])?.name,
    loras: files("loras").map((file) => ({ name: file.name, strength: file.strength ?? 1 })),
  };
}
