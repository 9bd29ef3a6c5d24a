// Pictures on the server's disk: found, looked at, compared, used again.

import { get, post, fileUrl, thumbUrl } from "./api.js";
import { settingsOf } from "./graph.js";

const $ = (id) => document.getElementById(id);
const PAGE = 60;
const FIRST = ["prompt", "negative", "size", "seed", "steps", "cfg", "sampler", "scheduler"];
let pictures = [];
let total = 0;
let shown = -1;
let current = null; // the picture that is looked at
let picked = null;
let comparing = false;
let use = () => {};

export function setUp(onUse) {
  use = onUse;
  let timer;
  $("search").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(refresh, 250); });
  $("more").addEventListener("click", () => load(pictures.length));
  $("compare").addEventListener("click", () => {
    comparing = !comparing;
    picked = null;
    $("compare").setAttribute("aria-pressed", comparing);
    draw();
  });
  const viewer = $("viewer");
  viewer.querySelector(".close").addEventListener("click", () => viewer.close());
  viewer.addEventListener("click", (e) => { if (e.target === viewer) viewer.close(); });
  viewer.addEventListener("keydown", (e) => {
    if ($("view-b").hidden && e.key === "ArrowLeft") step(-1);
    if ($("view-b").hidden && e.key === "ArrowRight") step(1);
  });
  $("slider").addEventListener("input", slide);
  $("delete").addEventListener("click", remove);
}

export const refresh = () => load(0);

async function load(offset) {
  const query = new URLSearchParams({ search: $("search").value, offset, limit: PAGE });
  const page = await get("/nino/gallery?" + query);
  pictures = offset ? pictures.concat(page.pictures) : page.pictures;
  total = page.total;
  draw();
}

function draw() {
  const tiles = pictures.map((picture, i) => {
    const tile = document.createElement("button");
    tile.type = "button";
    tile.title = picture.filename;
    tile.classList.toggle("picked", picture === picked);
    const image = new Image();
    image.loading = "lazy";
    image.alt = picture.filename;
    image.src = thumbUrl(picture);
    tile.append(image);
    tile.addEventListener("click", () => choose(i));
    return tile;
  });
  if (!tiles.length) {
    const nothing = document.createElement("p");
    nothing.className = "nothing";
    nothing.textContent = $("search").value ? "Nothing found." : "Images that you generate appear here.";
    tiles.push(nothing);
  }
  $("grid").replaceChildren(...tiles);
  $("gallery-count").textContent = comparing ? "choose two images" : `${total} images`;
  $("more").hidden = pictures.length >= total;
}

function choose(i) {
  if (!comparing) { open(i); return; }
  if (!picked) { picked = pictures[i]; draw(); return; }
  const [a, b] = [picked, pictures[i]];
  picked = null;
  draw();
  show(a, b);
}

function step(by) {
  if (shown < 0) return;
  open((shown + by + pictures.length) % pictures.length);
}

function open(i) {
  shown = i;
  show(pictures[i]);
}

// Looks at a picture, or at two of them with a line between.
export async function show(a, b) {
  current = a;
  shown = pictures.findIndex((p) => p.filename === a.filename && p.subfolder === (a.subfolder ?? ""));
  $("view-a").src = fileUrl(a);
  $("view-b").hidden = $("slider").hidden = !b;
  if (b) { $("view-b").src = fileUrl(b); slide(); }
  $("view-save").href = fileUrl(a);
  $("view-save").download = a.filename;
  $("view-facts").replaceChildren();
  if (!$("viewer").open) $("viewer").showModal();
  const query = new URLSearchParams({ filename: a.filename, subfolder: a.subfolder ?? "" });
  const about = await get("/nino/picture?" + query);
  const settings = about?.settings ?? {};
  const keys = [...FIRST.filter((key) => key in settings), ...Object.keys(settings).filter((key) => !FIRST.includes(key))];
  const rows = keys.map((key) => [key, settings[key].join("\n")]);
  const files = (about?.files ?? []).map((file) => [file.folder ?? "file",
    file.strength == null ? file.name : `${file.name} × ${file.strength}`]);
  facts($("view-facts"), [["file", a.filename], ...rows, ...files]);
  const usable = settingsOf(about);
  $("use").disabled = !usable;
  $("use").onclick = () => { $("viewer").close(); use(usable); };
}

export function facts(list, rows) {
  list.replaceChildren(...rows.flatMap(([name, value]) => {
    const [dt, dd] = ["dt", "dd"].map((tag) => document.createElement(tag));
    dt.textContent = name;
    dd.textContent = value;
    return [dt, dd];
  }));
}

function slide() {
  $("view-b").style.clipPath = `inset(0 0 0 ${$("slider").value}%)`;
}

async function remove() {
  const picture = current;
  if (!picture || !confirm(`Delete ${picture.filename} for good?`)) return;
  await post("/nino/delete", { filename: picture.filename, subfolder: picture.subfolder ?? "" });
  $("viewer").close();
  await refresh();
}
