// The page: its form, what happens while a picture is made, and the views.

import { Failed, fileUrl, get, listen, post, size, thumbUrl, upload } from "./api.js";
import { graphOf } from "./graph.js";
import * as gallery from "./gallery.js";
import * as models from "./models.js";
import * as paint from "./paint.js";
import * as references from "./references.js";

const $ = (id) => document.getElementById(id);
const SHAPES = [["square", 1, 1], ["portrait", 3, 4], ["tall", 9, 16], ["landscape", 4, 3], ["wide", 16, 9]];
const KEPT = ["prompt", "negative", "model", "width", "height", "count", "steps", "cfg", "seed", "sampler", "scheduler", "frames", "fps"];
const VIEWS = ["create", "gallery", "models", "settings"];
let about = null;      // of the chosen model
let loras = [];
let folders = new Map(); // of models that are no checkpoints
let base = 512;        // the side that the model likes
const mine = new Map(); // jobs of this page: what they make, and with which others
let running = null;
let visit = [];        // pictures of this visit
let preview = null;

// --- settings of the form ---

const value = (id) => $(id).value;
const number = (id) => Number($(id).value);

// The seed of a picture so many behind the first. Seeds are wider than JavaScript's numbers are
// exact; the server takes texts for numbers, too.
function seedOf(behind) {
  const seed = BigInt.asUintN(64, BigInt(value("seed") || 0) + BigInt(behind));
  return seed <= Number.MAX_SAFE_INTEGER ? Number(seed) : String(seed);
}

function settings() {
  return {
    prompt: value("prompt"), negative: value("negative"), model: value("model"),
    width: number("width"), height: number("height"), count: number("count"),
    steps: number("steps"), cfg: number("cfg"), sampler: value("sampler"), scheduler: value("scheduler"),
    seed: seedOf(0),
    loras, denoise: number("denoise"), upscaler: value("upscaler"),
    parts: parts(), side: about?.side ?? 8, references: [],
    video: about?.video ?? false, frames: number("frames"), fps: number("fps"),
    told: about?.guidance == null ? null : number("told"),
    hires: $("hires").checked && {
      scale: number("hires-scale"), steps: number("hires-steps"), denoise: number("hires-denoise"),
    },
  };
}

// The files beside a diffusion model that comes without them.
function parts() {
  if (!about?.parts) return null;
  const clip = [value("clip1"), value("clip2")].filter(Boolean);
  return { clip, type: about.parts.type, vae: value("vae") };
}

function keep() {
  const kept = Object.fromEntries(KEPT.map((id) => [id, value(id)]));
  localStorage.setItem("form", JSON.stringify({ ...kept, loras }));
}

function fill(given) {
  for (const id of KEPT) if (given[id] !== undefined && given[id] !== "") $(id).value = given[id];
  if (given.negative === "") $("negative").value = "";
  if (given.loras) { loras = given.loras; drawLoras(); }
}

async function use(given) {
  const known = [...$("model").options].some((option) => option.value === given.model);
  if (given.model && known) { $("model").value = given.model; await chooseModel(false); }
  fill({ ...given, model: known ? given.model : undefined });
  if (given.seed !== undefined) $("random").checked = false;
  location.hash = "#create";
  changed();
}

function options(select, names, chosen) {
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  if (chosen && names.includes(chosen)) select.value = chosen;
}

// Models, LoRAs and upscalers to choose from; what is chosen stays.
async function refreshLists() {
  const [checkpoints, lora, upscalers, others, encoders, vaes] = await Promise.all(
    ["checkpoints", "loras", "upscale_models", "diffusion_models", "text_encoders", "vae"]
      .map((folder) => get(`/models/${folder}`)));
  const alone = others.filter((name) => !checkpoints.includes(name));
  folders = new Map(alone.map((name) => [name, "diffusion_models"]));
  options($("model"), [...checkpoints, ...alone], value("model"));
  options($("clip1"), encoders, value("clip1"));
  options($("clip2"), encoders, value("clip2"));
  options($("vae"), vaes, value("vae"));
  $("lora-add").replaceChildren(new Option(lora.length ? "Add a LoRA…" : "No LoRAs found", ""),
    ...lora.map((name) => new Option(name, name)));
  const chosen = value("upscaler");
  $("upscaler").replaceChildren(new Option(upscalers.length ? "none" : "No upscaling models found", ""),
    ...upscalers.map((name) => new Option(name, name)));
  if (upscalers.includes(chosen)) $("upscaler").value = chosen;
}

async function setUpForm() {
  const [info] = await Promise.all([get("/object_info/KSampler"), refreshLists()]);
  const inputs = info.KSampler.input.required;
  options($("sampler"), inputs.sampler_name[0]);
  options($("scheduler"), inputs.scheduler[0]);
  $("shapes").replaceChildren(...SHAPES.map(([name, w, h]) => {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.textContent = name;
    chip.addEventListener("click", () => { shape(w, h); changed(); });
    return chip;
  }));
  let kept = {};
  try { kept = JSON.parse(localStorage.getItem("form")) ?? {}; } catch { /* as if there were none */ }
  const known = [...$("model").options].some((option) => option.value === kept.model);
  $("model").value = known ? kept.model : (await get("/nino/model")).name;
  await chooseModel(true);
  if (known) fill(kept);
  if (!value("seed")) dice();
}

// A size of this aspect with about as many pixels as the model likes.
function shape(w, h) {
  const grain = base >= 512 ? 64 : 16;
  const scale = Math.sqrt((base * base) / (w * h));
  $("width").value = Math.max(grain, Math.round((w * scale) / grain) * grain);
  $("height").value = Math.max(grain, Math.round((h * scale) / grain) * grain);
}

// Inputs that were changed while the server was asked about a model: they stay as they are.
const touched = new Set();

async function chooseModel(withDefaults) {
  about = null;
  touched.clear();
  const name = value("model");
  try {
    const query = { name, folder: folders.get(name) ?? "checkpoints" };
    const answer = await get("/nino/model?" + new URLSearchParams(query));
    // Another model was chosen meanwhile.
    if (value("model") !== name) return;
    about = answer;
    $("model-about").textContent = `${about.family}, best at ${about.size} × ${about.size}`;
  } catch (error) {
    $("model-about").textContent = error.message;
    return;
  }
  base = about.size;
  const starts = about.encodes && (!about.video || about.from_picture);
  $("no-encoder").hidden = starts;
  $("drop").hidden = !starts;
  $("parts-box").hidden = !about.parts;
  if (about.parts) {
    const [first, second] = about.parts.clip;
    $("clip1").value = first ?? $("clip1").value;
    $("clip2").value = second ?? "";
    $("clip2-label").hidden = !second;
    $("vae").value = about.parts.vae ?? $("vae").value;
    $("parts-box").open = !about.parts.vae;
  }
  $("reference-box").hidden = !(about.references && about.encodes);
  $("video-box").hidden = !about.video;
  $("hires-box").hidden = about.video;
  $("told-box").hidden = about.guidance == null;
  $("told").value = about.guidance ?? "";
  if (!withDefaults) return;
  const { size, steps, cfg, sampler, scheduler } = about;
  const best = { width: size, height: size, steps, cfg, sampler, scheduler };
  for (const [id, value] of Object.entries(best)) if (!touched.has(id)) $(id).value = value;
}

function dice() {
  const [a, b] = crypto.getRandomValues(new Uint32Array(2));
  $("seed").value = String((a & 0x1fffff) * 2 ** 32 + b);
}

function drawLoras() {
  $("lora-count").textContent = loras.length || "";
  $("loras").replaceChildren(...loras.map((lora, i) => {
    const row = document.createElement("div");
    row.className = "lora";
    const name = document.createElement("span");
    name.textContent = name.title = lora.name;
    const strength = document.createElement("input");
    Object.assign(strength, { type: "number", step: 0.05, min: -10, max: 10, value: lora.strength });
    strength.setAttribute("aria-label", `Strength of ${lora.name}`);
    strength.addEventListener("input", () => { lora.strength = Number(strength.value); changed(); });
    const remove = document.createElement("button");
    Object.assign(remove, { type: "button", className: "icon", textContent: "✕" });
    remove.setAttribute("aria-label", `Remove ${lora.name}`);
    remove.addEventListener("click", () => { loras.splice(i, 1); drawLoras(); changed(); });
    row.append(name, strength, remove);
    return row;
  }));
}

// --- memory ---

let budget = null;
let planTimer;
let planned = 0;

async function status() {
  const now = await get("/nino/status");
  const device = now.devices[0];
  budget = device.budget;
  const used = device.weights + device.arena;
  $("meter-name").textContent = device.model;
  $("meter-text").textContent = budget ? `${size(used)} of ${size(budget)}` : size(used);
  $("meter-used").style.width = budget ? `${(100 * used) / budget}%` : "0";
  $("to-comfy").hidden = !now.comfyui_page;
  return now;
}

// What the next request needs, asked a moment after the last change.
function changed() {
  keep();
  $("denoise-shown").textContent = value("denoise");
  clearTimeout(planTimer);
  planTimer = setTimeout(plan, 400);
}

async function plan() {
  const asked = ++planned;
  let text = "", tooMuch = false, share = 0;
  try {
    const chosen = await withPictures(settings());
    const answer = await post("/nino/plan", { prompt: graphOf(chosen) });
    const best = answer.devices.find((device) => device.fits) ?? answer.devices[0];
    if (best.fits) {
      const streams = best.stages.some((stage) => stage.residency === "streamed");
      text = `Needs ${size(best.peak)} of ${size(best.budget ?? best.peak)}${streams ? ", weights are streamed: slower" : ""}`;
      share = best.budget ? best.peak / best.budget : 0;
    } else {
      text = best.why;
      tooMuch = best.fits === false;
    }
  } catch (error) {
    text = error.message;
  }
  if (asked !== planned) return;
  $("needs").textContent = text;
  $("needs").classList.toggle("too-much", tooMuch);
  $("meter-next").style.width = `${Math.min(100, 100 * share)}%`;
}

// --- making ---

// The settings with the pictures that belong to them, which the server has then. A picture that did
// not change is not sent again.
let sent = {};
async function withPictures(chosen) {
  if (references.count() && !$("reference-box").hidden) chosen.references = await references.sent();
  if (!paint.hasPicture() || $("drop").hidden) return chosen;
  const key = [paint.revision(), chosen.width, chosen.height].join();
  if (sent.key !== key) {
    const { start, mask } = await paint.exported(chosen.width, chosen.height);
    const name = crypto.getRandomValues(new Uint32Array(1))[0].toString(16);
    sent = { key, start: await upload(start, `${name}.png`), mask: mask && (await upload(mask, `${name}-mask.png`)) };
  }
  return { ...chosen, start: sent.start, mask: !chosen.video && sent.mask };
}

// Every picture is a job of its own with a seed of its own, so that each can be made again.
async function make() {
  problem(null);
  if ($("random").checked) dice();
  try {
    const chosen = await withPictures(settings());
    keep();
    const preview_method = $("set-preview").checked ? "auto" : "none";
    const together = [];
    for (let i = 0; i < Math.max(1, chosen.count); i++) {
      const one = { ...chosen, seed: seedOf(i), together };
      const body = { prompt: graphOf(one), client_id: client, extra_data: { preview_method } };
      const { prompt_id } = await post("/prompt", body);
      together.push(prompt_id);
      mine.set(prompt_id, one);
    }
    await drawQueue();
  } catch (error) {
    problem(error instanceof Failed ? error.message : `The server does not answer: ${error.message}`);
  }
}

function problem(text) {
  $("problem").hidden = !text;
  $("problem").textContent = text ?? "";
}

function progress(text, share) {
  $("progress").hidden = text === null;
  $("progress-text").textContent = text ?? "";
  $("progress-bar").style.width = `${100 * (share ?? 0)}%`;
}

function showPicture(url, isPreview) {
  $("picture").src = url;
  $("shown").classList.remove("empty");
  $("shown").classList.toggle("working", isPreview);
  if (preview && preview !== url) URL.revokeObjectURL(preview);
  preview = isPreview ? url : null;
}

function showMade(file) {
  showPicture(fileUrl(file), false);
  $("shown-tools").hidden = false;
  $("save").href = fileUrl(file);
  $("save").download = file.filename;
  $("again").hidden = !about?.encodes;
  $("again").onclick = async () => {
    const blob = await (await fetch(fileUrl(file))).blob();
    $("start-box").open = true;
    await paint.load(blob, changed);
  };
  $("show-settings").onclick = () => gallery.show(file);
  for (const image of $("strip").children) image.classList.toggle("on", image.dataset.name === file.filename);
}

const seconds = (s) => (s >= 90 ? `${Math.round(s / 60)} min` : `${Math.ceil(s)} s`);

const client = listen({
  connected: (is) => { document.body.classList.toggle("offline", !is); if (is) drawQueue(); },
  status: () => drawQueue(),
  execution_start: ({ prompt_id }) => {
    running = { id: prompt_id, since: null };
    $("cancel").disabled = false;
    progress("starting", 0);
  },
  executing: ({ node, prompt_id }) => {
    if (node !== null || running?.id !== prompt_id) return;
    running = null;
    $("cancel").disabled = true;
    progress(null);
    status();
  },
  progress: ({ value, max }) => {
    if (!running) return;
    // The first step has the loading of weights in it.
    if (!running.since && value >= 1) running.since = { at: performance.now(), value };
    const done = running.since && value - running.since.value;
    const left = done > 0 ? ((performance.now() - running.since.at) / 1e3 / done) * (max - value) : null;
    progress(`${value} of ${max}${left === null ? "" : `, ${seconds(left)} left`}`, value / max);
  },
  preview: (_, picture) => { if (running) showPicture(URL.createObjectURL(picture), true); },
  executed: ({ output, prompt_id }) => {
    if (!mine.has(prompt_id)) return;
    for (const file of output?.images ?? []) {
      visit.unshift(file);
      const image = new Image();
      image.src = file.type === "output" ? thumbUrl({ ...file, time: Date.now() }, 168) : fileUrl(file);
      image.alt = file.filename;
      image.dataset.name = file.filename;
      image.tabIndex = 0;
      image.addEventListener("click", () => showMade(file));
      image.addEventListener("keydown", (e) => { if (e.key === "Enter") showMade(file); });
      $("strip").prepend(image);
    }
    if (output?.images?.length) showMade(output.images[0]);
  },
  execution_success: () => {
    if ($("set-notify").checked && document.hidden && Notification.permission === "granted") {
      new Notification("nino", { body: "Your image is ready." });
    }
  },
  execution_error: (error) => problem(`${error.node_type}: ${error.exception_message}`),
  execution_interrupted: () => progress(null),
});

async function drawQueue() {
  const { jobs } = await get("/api/jobs?status=in_progress,pending&sort_order=asc&limit=50");
  $("queue").hidden = jobs.length < 2;
  $("queue-list").replaceChildren(...jobs.map((job) => {
    const row = document.createElement("li");
    const state = document.createElement("b");
    state.textContent = job.status === "pending" ? "waiting" : "running";
    const words = document.createElement("span");
    words.textContent = mine.get(job.id)?.prompt || job.id;
    const cancel = document.createElement("button");
    cancel.textContent = "Cancel";
    cancel.addEventListener("click", () => post(`/api/jobs/${job.id}/cancel`, {}));
    row.append(state, words, cancel);
    return row;
  }));
}

// --- views ---

async function showView() {
  const name = VIEWS.find((view) => location.hash === `#${view}`) ?? "create";
  for (const view of VIEWS) $(view).hidden = view !== name;
  for (const link of document.querySelectorAll("nav a[data-view]")) {
    link.toggleAttribute("aria-current", link.dataset.view === name);
  }
  if (name === "gallery") await gallery.refresh();
  if (name === "models") await models.show();
  if (name === "settings") {
    const now = await status();
    gallery.facts($("about"), [
      ["version", now.version],
      ...now.devices.map((d) => [d.name, `${d.model}, ${size(d.weights + d.arena)} of ${d.budget ? size(d.budget) : "?"}`]),
      ["memory", `${size(now.memory.available ?? 0)} of ${size(now.memory.total ?? 0)} free`],
      ["jobs", String(now.queue)],
    ]);
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
}

async function start() {
  const light = matchMedia("(prefers-color-scheme: light)").matches;
  setTheme(localStorage.getItem("theme") ?? (light ? "light" : "dark"));
  $("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  $("form").addEventListener("submit", (e) => { e.preventDefault(); make(); });
  $("form").addEventListener("input", (e) => { touched.add(e.target.id); changed(); });
  $("model").addEventListener("change", async () => { await chooseModel(true); changed(); });
  $("swap").addEventListener("click", () => {
    [$("width").value, $("height").value] = [value("height"), value("width")];
    changed();
  });
  $("dice").addEventListener("click", dice);
  $("lora-add").addEventListener("change", () => {
    if (value("lora-add")) loras.push({ name: value("lora-add"), strength: 1 });
    $("lora-add").value = "";
    drawLoras();
    changed();
  });
  // What was asked for together is stopped together.
  $("cancel").addEventListener("click", () => {
    if (running) post("/api/jobs/cancel", { job_ids: mine.get(running.id)?.together ?? [running.id] });
  });
  $("free").addEventListener("click", () => post("/free", { unload_models: true, free_memory: true }).then(showView));
  $("set-notify").addEventListener("change", () => Notification.requestPermission?.());
  document.addEventListener("keydown", (e) => {
    if ((e.ctrlKey || e.metaKey) && e.key === "Enter") { e.preventDefault(); $("form").requestSubmit(); }
    if (e.key === "Escape" && !$("viewer").open && running) $("cancel").click();
    if (e.altKey && VIEWS[Number(e.key) - 1]) location.hash = `#${VIEWS[Number(e.key) - 1]}`;
  });
  addEventListener("hashchange", showView);
  paint.setUp(changed);
  references.setUp(changed);
  gallery.setUp(use);
  models.setUp(refreshLists);
  try {
    await setUpForm();
    await status();
    changed();
    await showView();
  } catch (error) {
    problem(error.message);
  }
  setInterval(() => { if (!document.hidden) status().catch(() => {}); }, 4000);
}

start();
