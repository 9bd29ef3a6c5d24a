// A picture to start from, and a mask painted over it.

const mask = document.createElement("canvas");
const tint = document.createElement("canvas");
let picture = null;
let erasing = false;
let last = null;
let changes = 0;

const $ = (id) => document.getElementById(id);
const canvas = () => $("paint");

export const hasPicture = () => picture !== null;

// Another number whenever the picture or its mask is another.
export const revision = () => changes;

export function setUp(changed) {
  const drop = $("drop");
  drop.addEventListener("click", () => { if (!picture) $("file").click(); });
  drop.addEventListener("keydown", (e) => { if (e.key === "Enter" && !picture) $("file").click(); });
  $("file").addEventListener("change", () => load($("file").files[0], changed));
  for (const kind of ["dragenter", "dragover"]) {
    document.addEventListener(kind, (e) => { e.preventDefault(); drop.classList.add("over"); });
  }
  document.addEventListener("dragleave", (e) => { if (!e.relatedTarget) drop.classList.remove("over"); });
  document.addEventListener("drop", (e) => {
    e.preventDefault();
    drop.classList.remove("over");
    const file = [...e.dataTransfer.files].find((f) => f.type.startsWith("image/"));
    if (file) { $("start-box").open = true; load(file, changed); }
  });
  document.addEventListener("paste", (e) => {
    const file = [...e.clipboardData.files].find((f) => f.type.startsWith("image/"));
    if (file) { $("start-box").open = true; load(file, changed); }
  });
  const board = canvas();
  board.addEventListener("pointerdown", (e) => { board.setPointerCapture(e.pointerId); last = null; stroke(e); });
  board.addEventListener("pointermove", (e) => { if (e.buttons) stroke(e); });
  board.addEventListener("pointerup", () => { last = null; });
  $("erase").addEventListener("click", () => {
    erasing = !erasing;
    $("erase").setAttribute("aria-pressed", erasing);
  });
  $("clear-mask").addEventListener("click", () => {
    mask.getContext("2d").clearRect(0, 0, mask.width, mask.height);
    changes++;
    draw();
  });
  $("drop-picture").addEventListener("click", () => { remove(); changed(); });
}

export async function load(file, changed) {
  if (!file) return;
  picture = await createImageBitmap(file);
  changes++;
  mask.width = picture.width;
  mask.height = picture.height;
  canvas().width = picture.width;
  canvas().height = picture.height;
  canvas().hidden = false;
  $("drop").querySelector("p").hidden = true;
  $("paint-tools").hidden = false;
  draw();
  changed();
}

function remove() {
  picture = null;
  canvas().hidden = true;
  $("drop").querySelector("p").hidden = false;
  $("paint-tools").hidden = true;
  $("file").value = "";
}

function stroke(event) {
  const box = canvas().getBoundingClientRect();
  const scale = canvas().width / box.width;
  const at = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  const pen = mask.getContext("2d");
  pen.globalCompositeOperation = erasing ? "destination-out" : "source-over";
  pen.lineWidth = Number($("brush").value) * scale * 0.5;
  pen.lineCap = pen.lineJoin = "round";
  pen.strokeStyle = "#fff";
  pen.beginPath();
  pen.moveTo(...(last ?? at));
  pen.lineTo(at[0] + 0.01, at[1]);
  pen.stroke();
  last = at;
  changes++;
  draw();
}

// The mask is shown in a color, since white is not seen on what is white.
function draw() {
  tint.width = mask.width;
  tint.height = mask.height;
  const color = tint.getContext("2d");
  color.drawImage(mask, 0, 0);
  color.globalCompositeOperation = "source-in";
  color.fillStyle = "#e0218a";
  color.fillRect(0, 0, tint.width, tint.height);
  const pen = canvas().getContext("2d");
  pen.globalAlpha = 1;
  pen.drawImage(picture, 0, 0);
  pen.globalAlpha = 0.6;
  pen.drawImage(tint, 0, 0);
}

function isPainted() {
  const { data } = mask.getContext("2d").getImageData(0, 0, mask.width, mask.height);
  for (let i = 3; i < data.length; i += 4) if (data[i] > 8) return true;
  return false;
}

// The picture and its mask as PNGs of the size that is to be made, cut in the middle.
export async function exported(width, height) {
  const fit = (source) => {
    const out = document.createElement("canvas");
    out.width = width;
    out.height = height;
    const scale = Math.max(width / picture.width, height / picture.height);
    const [w, h] = [picture.width * scale, picture.height * scale];
    const pen = out.getContext("2d");
    pen.fillStyle = "#000";
    pen.fillRect(0, 0, width, height);
    pen.drawImage(source, (width - w) / 2, (height - h) / 2, w, h);
    return new Promise((done) => out.toBlob(done, "image/png"));
  };
  return { start: await fit(picture), mask: isPainted() ? await fit(mask) : null };
}
