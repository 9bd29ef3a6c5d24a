// The page of models: what is here, and downloads of others.

import { get, post, size } from "./api.js";

const $ = (id) => document.getElementById(id);
const ACTIVE = ["waiting", "running"];
let models = [];
let timer;
let onNew = () => {};

const element = (tag, text, className) => Object.assign(document.createElement(tag), { textContent: text ?? "", className: className ?? "" });

export function setUp(whenNew) {
  onNew = whenNew;
  $("model-search").addEventListener("input", drawRows);
  $("pull").addEventListener("submit", (e) => { e.preventDefault(); begin($("pull-what").value.trim()); });
}

export async function show() {
  models = await get("/nino/models");
  drawRows();
  await refresh();
}

function drawRows() {
  const search = $("model-search").value.toLowerCase();
  const found = models.filter((m) => `${m.name} ${m.kind}`.toLowerCase().includes(search));
  $("model-rows").replaceChildren(...found.map((model) => {
    const row = document.createElement("tr");
    row.append(...[model.name, model.kind, size(model.size)].map((text) => element("td", text)));
    return row;
  }));
}

async function begin(what) {
  if (!what) return;
  $("pull-problem").hidden = true;
  try {
    await post("/nino/downloads", { what });
    $("pull-what").value = "";
  } catch (error) {
    $("pull-problem").textContent = error.message;
    $("pull-problem").hidden = false;
  }
  await refresh();
}

// Asked again while something comes, and the view is there.
let active = false;
async function refresh() {
  clearTimeout(timer);
  const { available, names, downloads } = await get("/nino/downloads");
  $("pull-box").hidden = !available;
  $("pull-names").replaceChildren(...names.map((name) => new Option(`${name.about}, ${size(name.size)}`, name.name)));
  $("downloads").replaceChildren(...downloads.map(drawDownload));
  const now = downloads.some((d) => ACTIVE.includes(d.state));
  if (active && !now) {
    models = await get("/nino/models");
    drawRows();
    onNew();
  }
  active = now;
  if (active && !$("models").hidden) timer = setTimeout(() => refresh().catch(() => {}), 500);
}

function drawDownload(download) {
  const row = element("li", "", download.state);
  const share = download.size ? download.have / download.size : 0;
  const bar = element("span", "", "bar");
  const inner = document.createElement("i");
  inner.style.width = `${100 * share}%`;
  bar.append(inner);
  const how = download.state === "running" && download.size
    ? `${size(download.have)} of ${size(download.size)}` : download.state;
  row.append(element("b", download.what), bar, element("span", [how, download.note].filter(Boolean).join(": ")));
  if (ACTIVE.includes(download.state)) {
    const stop = Object.assign(element("button", "Stop"), { type: "button" });
    stop.addEventListener("click", () => post("/nino/downloads/stop", { id: download.id }).then(refresh));
    row.append(stop);
  }
  return row;
}
