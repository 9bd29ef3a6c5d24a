"""A `nino serve` of its own for a test in a browser, and a hub to download from."""

import hashlib
import http.server
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[4]
FILE = "model.safetensors"
# A browser that asks nobody but the server.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def in_parts(folder, model, parts):
    """Puts a small model with made-up weights into the folders of ComfyUI, a file for each part: of
    each the folder, the file's name and the prefix of its tensors."""
    sys.path.insert(0, str(ROOT / "goldens/generate"))
    import weights

    whole = folder / f"{model}.whole"
    weights.write(model, whole)
    content = whole.read_bytes()
    whole.unlink()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    for place, name, prefix in parts:
        kept, bytes_ = {}, b""
        for tensor, about in header.items():
            if tensor.startswith(prefix):
                begin, end = about["data_offsets"]
                offsets = [len(bytes_), len(bytes_) + end - begin]
                kept[tensor.removeprefix(prefix)] = about | {"data_offsets": offsets}
                bytes_ += data[begin:end]
        text = json.dumps(kept).encode()
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / name).write_bytes(struct.pack("<Q", len(text)) + text + bytes_)


class Serving:
    """Starts `nino serve` in a folder of its own, with a small upscaler, and ends it. `models` puts
    others into the folder that it is given."""

    def __init__(self, nino, *more, env=None, models=None):
        self.folder = tempfile.TemporaryDirectory()
        data = pathlib.Path(self.folder.name)
        upscalers = data / "models" / "upscale_models"
        upscalers.mkdir(parents=True)
        shutil.copy(ROOT / "goldens/models/esrgan_x2.safetensors", upscalers / "2x-Small.safetensors")
        if models:
            models(data / "models")
        names = {"NINO_MODELS": str(data / "models"), "HF_HUB_CACHE": str(data / "hub")}
        command = [nino, "serve", "--json", "--port", "0", "--data", str(data / "data"), "--device", "cpu", *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | names | (env or {}))
        text = ""
        for line in self.process.stdout:
            text += line
            if line.startswith("}"):
                break
        self.url = json.loads(text)["url"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        self.folder.cleanup()


def hub(pause=0.02):
    """A server that has one file of the repository org/repo; it comes slowly."""
    content = (ROOT / "goldens/models/taesd.safetensors").read_bytes()
    sha = hashlib.sha256(content).hexdigest()

    class Handler(http.server.BaseHTTPRequestHandler):
        def head(self):
            found = self.path.endswith(FILE)
            self.send_response(200 if found else 404)
            for name, value in [("X-Repo-Commit", "c0ffee"), ("X-Linked-ETag", f'"{sha}"'), ("X-Linked-Size", len(content)),
                                ("ETag", f'"{sha}"'), ("Content-Length", len(content) if found else 0)]:  # fmt: skip
                self.send_header(name, str(value))
            self.end_headers()
            return found

        def do_HEAD(self):
            self.head()

        def do_GET(self):
            if self.head():
                for at in range(0, len(content), 8192):
                    self.wfile.write(content[at : at + 8192])
                    threading.Event().wait(pause)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
