"""ComfyUI's own page on a nino server, in a real browser. Not a part of CI:

    python -m venv venv && venv/bin/pip install playwright==1.65.0 comfyui-frontend-package==1.47.12
    cargo build --release
    venv/bin/python crates/nino-server/tests/outside/comfyui.py target/release/nino --shots shots

The page runs its default workflow, which is for Z-Image, with the built-in model: smaller, and
without the node that tells a model times which the built-in one does not know. Then it is given
another graph. Both show their picture in the node that saves it. The package is under the GPL: it is installed for the test and never a part of nino.
"""

import argparse
import importlib.util
import pathlib
import urllib.request

from playwright.sync_api import sync_playwright
from serving import FLAGS, Serving

SLOW = 120_000
GRAPH = {
    "3": {"class_type": "KSampler", "inputs": {
        "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["5", 0], "seed": 5, "steps": 6,
        "cfg": 4.0, "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0}},
    "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "nino-emoji"}},
    "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 128, "height": 128, "batch_size": 1}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a red heart", "clip": ["4", 1]}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "", "clip": ["4", 1]}},
    "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["4", 2]}},
    "10": {"class_type": "UpscaleModelLoader", "inputs": {"model_name": "2x-Small.safetensors"}},
    "11": {"class_type": "ImageUpscaleWithModel", "inputs": {"upscale_model": ["10", 0], "image": ["8", 0]}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["11", 0], "filename_prefix": "comfy"}},
}  # fmt: skip


CHANGES = """() => {
  const node = (type) => window.app.graph._nodes.find((node) => node.type === type);
  const set = (type, name, value) => { node(type).widgets.find((widget) => widget.name === name).value = value; };
  set("EmptySD3LatentImage", "width", 256);
  set("EmptySD3LatentImage", "height", 256);
  set("CLIPTextEncode", "text", "a red heart");
  set("KSampler", "cfg", 4);
  node("ModelSamplingAuraFlow").mode = 4;
  Object.assign(window.app.canvas.ds, { scale: 0.62, offset: [150, 60] });
  return window.app.graph._nodes.filter((node) => node.type.endsWith("Loader")).map((node) => node.widgets[0].value);
}"""


def default_workflow(page, shots):
    page.wait_for_function("window.app.graph._nodes.some(node => node.type === 'UNETLoader')")
    loaded = page.evaluate(CHANGES)
    assert loaded == ["nino-emoji"] * 3, loaded
    page.evaluate("window.app.queuePrompt(0, 1)")
    page.wait_for_function("window.app.graph._nodes.some(node => node.type === 'SaveImage' && node.imgs?.[0]?.naturalWidth === 256)")
    page.wait_for_timeout(1500)
    if shots:
        page.screenshot(path=shots / "comfyui-default.png")
    print("the default workflow ran, and its picture is shown in its node")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("nino")
    args.add_argument("--chromium")
    args.add_argument("--shots", type=pathlib.Path)
    args = args.parse_args()
    if args.shots:
        args.shots.mkdir(parents=True, exist_ok=True)
    package = importlib.util.find_spec("comfyui_frontend_package").submodule_search_locations[0]
    with Serving(args.nino, "--front-end-root", f"{package}/static") as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=args.chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1500, "height": 950})
        page.set_default_timeout(SLOW)
        page.goto(f"{server.url}comfy/")
        page.wait_for_function("!!window.app?.graph && !!window.LiteGraph?.registered_node_types?.ImageUpscaleWithModel")
        print("the page is there, with", page.evaluate("Object.keys(LiteGraph.registered_node_types).length"), "classes of nodes")
        default_workflow(page, args.shots)
        page.evaluate("graph => window.app.loadApiJson(graph, 'test.json')", GRAPH)
        page.wait_for_function("window.app.graph._nodes.length === 9")
        # Pictures are loaded for nodes that are seen: the whole graph is.
        page.evaluate("Object.assign(window.app.canvas.ds, { scale: 0.5, offset: [-300, 300] })")
        page.evaluate("window.app.queuePrompt(0, 1)")
        page.wait_for_function("window.app.graph._nodes.some(node => node.type === 'SaveImage' && node.imgs?.[0]?.naturalWidth === 256)")
        page.wait_for_timeout(1500)
        if args.shots:
            page.screenshot(path=args.shots / "comfyui.png")
        with urllib.request.urlopen(f"{server.url}history") as answer:
            assert b'"success"' in answer.read()
        print("the graph ran, and its picture is shown in its node")
        browser.close()


if __name__ == "__main__":
    main()
