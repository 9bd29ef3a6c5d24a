"""Client libraries that people use with ComfyUI, OpenAI and A1111, against a nino server. Not a part
of CI:

    python -m venv venv
    venv/bin/pip install comfy-api-simplified==1.6.0 openai==2.54.0 webuiapi==0.9.17
    cargo build --release
    venv/bin/python crates/nino-server/tests/outside/clients.py target/release/nino
"""

import base64
import io
import json
import pathlib
import sys
import tempfile
import urllib.parse

import openai
import webuiapi
from comfy_api_simplified import ComfyApiWrapper, ComfyWorkflowWrapper
from PIL import Image
from serving import Serving

WORKFLOW = {
    "3": {"class_type": "KSampler", "_meta": {"title": "Sample"}, "inputs": {
        "model": ["4", 0], "positive": ["6", 0], "negative": ["7", 0], "latent_image": ["5", 0], "seed": 5, "steps": 4,
        "cfg": 4.0, "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0}},
    "4": {"class_type": "CheckpointLoaderSimple", "_meta": {"title": "Model"}, "inputs": {"ckpt_name": "nino-emoji"}},
    "5": {"class_type": "EmptyLatentImage", "_meta": {"title": "Size"}, "inputs": {"width": 128, "height": 128, "batch_size": 1}},
    "6": {"class_type": "CLIPTextEncode", "_meta": {"title": "Prompt"}, "inputs": {"text": "", "clip": ["4", 1]}},
    "7": {"class_type": "CLIPTextEncode", "_meta": {"title": "Leave out"}, "inputs": {"text": "", "clip": ["4", 1]}},
    "8": {"class_type": "VAEDecode", "_meta": {"title": "Decode"}, "inputs": {"samples": ["3", 0], "vae": ["4", 2]}},
    "9": {"class_type": "SaveImage", "_meta": {"title": "Save"}, "inputs": {"images": ["8", 0], "filename_prefix": "client"}},
}  # fmt: skip


def picture(data, size):
    image = Image.open(io.BytesIO(data)).convert("RGB")
    assert image.size == size, image.size
    assert len(image.getcolors(1 << 20)) > 16, "it is of one color"
    return image


def comfyui(url):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "workflow.json"
        file.write_text(json.dumps(WORKFLOW))
        workflow = ComfyWorkflowWrapper(str(file))
    workflow.set_node_param("Prompt", "text", "a red heart")
    workflow.set_node_param("Size", "width", 160)
    made = ComfyApiWrapper(url).queue_and_wait_images(workflow, "Save")
    assert len(made) == 1
    return picture(next(iter(made.values())), (160, 128))


def openai_calls(url):
    client = openai.OpenAI(base_url=f"{url}v1", api_key="none", timeout=300, max_retries=0)
    assert "nino-emoji" in [model.id for model in client.models.list()]
    made = client.images.generate(model="nino-emoji", prompt="a smiling sun", size="128x128", n=2, response_format="b64_json",
                                  extra_body={"steps": 4, "seed": 3})  # fmt: skip
    assert len(made.data) == 2
    for one in made.data:
        picture(base64.b64decode(one.b64_json), (128, 128))


def a1111(url):
    at = urllib.parse.urlparse(url)
    api = webuiapi.WebUIApi(host=at.hostname, port=at.port, steps=4)
    assert "Euler a" in [sampler["name"] for sampler in api.get_samplers()]
    assert "2x-Small" in [upscaler["name"] for upscaler in api.get_upscalers()]
    made = api.txt2img(prompt="a red heart", width=64, height=64, cfg_scale=4, sampler_name="Euler", seed=7)
    assert made.image.size == (64, 64) and made.info["seed"] == 7, made.info
    larger = api.extra_single_image(image=made.image, upscaler_1="2x-Small", upscaling_resize=2)
    assert larger.image.size == (128, 128), larger.image.size


def main():
    with Serving(sys.argv[1]) as server:
        for client in [comfyui, openai_calls, a1111]:
            client(server.url)
            print(f"{client.__name__}: right")


if __name__ == "__main__":
    main()
