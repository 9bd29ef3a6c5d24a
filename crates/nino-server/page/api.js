// Requests to the server, and the messages it sends.

export class Failed extends Error {}

async function ask(path, options = {}) {
  const answer = await fetch(path, options);
  if (answer.ok) return answer;
  const text = await answer.text();
  let sentence = text || `${answer.status} ${answer.statusText}`;
  try { sentence = told(JSON.parse(text)); } catch { /* a plain sentence */ }
  throw new Failed(sentence);
}

// ComfyUI's errors of a prompt in a sentence.
function told(body) {
  if (!body.error) return JSON.stringify(body);
  const nodes = Object.values(body.node_errors ?? {});
  const lines = nodes.flatMap((node) => node.errors.map((e) => `${node.class_type}: ${e.message}: ${e.details}`));
  const head = [body.error.message ?? body.error, body.error.details].filter(Boolean).join(": ");
  return [lines.length ? "" : head, ...lines].filter(Boolean).join("\n");
}

export const size = (bytes) => (bytes >= 2 ** 30 ? `${(bytes / 2 ** 30).toFixed(1)} GiB` : `${Math.ceil(bytes / 2 ** 20)} MiB`);

export const get = async (path) => (await ask(path)).json();

export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  const answer = await ask(path, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

export async function upload(blob, name) {
  const form = new FormData();
  form.append("image", blob, name);
  form.append("subfolder", "page");
  form.append("type", "input");
  const saved = await (await ask("/upload/image", { method: "POST", body: form })).json();
  return saved.subfolder ? `${saved.subfolder}/${saved.name}` : saved.name;
}

export function fileUrl(file, more = {}) {
  const { filename, subfolder = "", type = "output" } = file;
  return "/view?" + new URLSearchParams({ filename, subfolder, type, ...more });
}

export function thumbUrl(file, side = 320) {
  const { filename, subfolder = "", time = "" } = file;
  return "/nino/thumb?" + new URLSearchParams({ filename, subfolder, side, time });
}

// A socket that comes back by itself. `on` has a function for each type of message, one for
// `preview` pictures and one for `connected`.
export function listen(on) {
  const known = sessionStorage.getItem("client");
  const client = known ?? crypto.randomUUID?.() ?? String(Math.random()).slice(2);
  sessionStorage.setItem("client", client);
  const open = () => {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/ws?clientId=${client}`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      const data = { supports_preview_metadata: true };
      socket.send(JSON.stringify({ type: "feature_flags", data }));
      on.connected?.(true);
    };
    socket.onmessage = ({ data }) => {
      if (typeof data === "string") {
        const message = JSON.parse(data);
        on[message.type]?.(message.data);
        return;
      }
      const view = new DataView(data);
      if (view.getUint32(0) !== 4) return;
      const length = view.getUint32(4);
      const about = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 8, length)));
      const picture = new Blob([new Uint8Array(data, 8 + length)], { type: about.image_type });
      on.preview?.(about, picture);
    };
    socket.onclose = () => { on.connected?.(false); setTimeout(open, 1500); };
  };
  open();
  return client;
}
