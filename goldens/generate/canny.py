"""Writes canny.safetensors: edges as ComfyUI's node Canny finds them.

    pip install torch==2.11.0 kornia==0.9.0 safetensors==0.8.0
    python goldens/generate/canny.py
"""

from pathlib import Path

import torch
from kornia.filters import canny
from safetensors.torch import save_file

small = torch.rand(1, 3, 9, 12, generator=torch.Generator().manual_seed(1))
image = torch.nn.functional.interpolate(small, (48, 64), mode="bicubic").clamp(0, 1)
image[..., 10:30, 20:41] = 1 - image[..., 10:30, 20:41]  # straight edges and corners
out = {"image": image.movedim(1, -1).contiguous()}
for low, high in ((0.4, 0.8), (0.1, 0.2), (0.3, 0.9)):
    out[f"edges/{low}/{high}"] = canny(image, low, high)[1].contiguous()
save_file(out, Path(__file__).parent / "canny.safetensors")
