// Renders the SVG sets (Fluent flat, Noto) to 256x256 PNGs named by code point: png/<style>/<code>.png.
import { Resvg } from "@resvg/resvg-js";
import { readFileSync, mkdirSync, writeFileSync, existsSync } from "node:fs";

const read = (path) => JSON.parse(readFileSync(`node_modules/${path}`));
const emoji = read("unicode-emoji-json/data-by-emoji.json");
const code = (text) => [...text].map((c) => c.codePointAt(0).toString(16).padStart(4, "0"))
  .filter((c) => c !== "fe0f").join("-");

for (const [style, set] of [["flat", "fluent-emoji-flat"], ["noto", "noto"]]) {
  const { icons, aliases = {}, width, height } = read(`@iconify-json/${set}/icons.json`);
  const byCode = {};
  for (const [hex, name] of Object.entries(read(`@iconify-json/${set}/chars.json`)))
    byCode[hex.split("-").filter((c) => c !== "fe0f").join("-")] = name;
  mkdirSync(`png/${style}`, { recursive: true });
  let n = 0;
  for (const [text, { group }] of Object.entries(emoji)) {
    const key = code(text);
    const icon = icons[byCode[key]] ?? icons[aliases[byCode[key]]?.parent];
    const path = `png/${style}/${key}.png`;
    if (!icon || (group === "Flags" && key.startsWith("1f1")) || existsSync(path)) continue;
    const [w, h] = [icon.width ?? width, icon.height ?? height];
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 ${w} ${h}">${icon.body}</svg>`;
    writeFileSync(path, ""); // stays empty when resvg aborts on this icon; the next run skips it
    writeFileSync(path, new Resvg(svg, { fitTo: { mode: "width", value: 256 } }).render().asPng());
    n += 1;
  }
  console.log(style, n);
}
