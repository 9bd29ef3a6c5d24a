// Pictures that the model looks at: dropped or chosen, shown small, sent when a picture is made.

import { upload } from "./api.js";

const $ = (id) => document.getElementById(id);
const MOST = 8;
let pictures = []; // { file, url, name }: `name` is the server's, once it has the picture

export const count = () => pictures.length;

export function setUp(changed) {
  const drop = $("reference-drop");
  drop.addEventListener("click", () => $("reference-file").click());
  drop.addEventListener("keydown", (e) => { if (e.key === "Enter") $("reference-file").click(); });
  $("reference-file").addEventListener("change", () => { add($("reference-file").files); changed(); });
  drop.addEventListener("drop", (e) => {
    // It is not the picture to start from.
    e.preventDefault();
    e.stopPropagation();
    drop.classList.remove("over");
    add(e.dataTransfer.files);
    changed();
  });
  $("references").addEventListener("click", (e) => {
    const at = [...$("references").children].indexOf(e.target);
    if (at < 0) return;
    URL.revokeObjectURL(pictures[at].url);
    pictures.splice(at, 1);
    draw();
    changed();
  });
}

function add(files) {
  for (const file of files) {
    if (file.type.startsWith("image/") && pictures.length < MOST) {
      pictures.push({ file, url: URL.createObjectURL(file), name: null });
    }
  }
  $("reference-file").value = "";
  draw();
}

function draw() {
  $("reference-count").textContent = pictures.length || "";
  $("references").replaceChildren(...pictures.map(({ url, file }) => {
    const image = new Image();
    Object.assign(image, { src: url, alt: file.name, title: "Remove" });
    return image;
  }));
}

// The names that the server has for the pictures.
export async function sent() {
  for (const picture of pictures) {
    picture.name ??= await upload(picture.file, picture.file.name);
  }
  return pictures.map((picture) => picture.name);
}
