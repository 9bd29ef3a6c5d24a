"""Writes a LoRA with made-up weights for SD 1.5, named as kohya's trainer does: python goldens/generate/lora.py OUT.safetensors

Rank 8 and alpha 4 on every linear layer of the UNet's transformers and of the text encoder. Needs numpy 1.26.4 and
safetensors 0.8.0.
"""

import re
import sys

import numpy as np
import weights
from safetensors.numpy import save_file

RANK, ALPHA = 8, 4.0


def kohya(name):
    """The trainer's name of a weight; None for those it leaves alone."""

    def place(m):
        side, n = m[1], int(m[2] or 0)
        if side == "middle_block":
            return "mid_block.attentions.0."
        n, kind = (n - 1, "down") if side == "input_blocks" else (n, "up")
        return f"{kind}_blocks.{n // 3}.attentions.{n % 3}."

    if m := re.fullmatch(r"cond_stage_model\.transformer\.(text_model\.encoder\..*(?:_proj|fc\d))\.weight", name):
        return "lora_te_" + m[1].replace(".", "_")
    if m := re.fullmatch(r"model\.diffusion_model\.(.*transformer_blocks.*)\.weight", name):
        inner = re.sub(r"^(input_blocks|middle_block|output_blocks)(?:\.(\d+))?\.1\.", place, m[1])
        return None if "norm" in inner else "lora_unet_" + inner.replace(".", "_")
    return None


def write(path):
    numbers, out = weights.pool(), {}
    for name, shape in weights.tensors("sd15").items():
        layer = kohya(name)
        if not layer:
            continue
        rows, columns = shape
        down = weights.values(numbers, f"{layer}.down", [RANK, columns]).reshape(RANK, columns)
        up = weights.values(numbers, f"{layer}.up", [rows, RANK]).reshape(rows, RANK)
        out[f"{layer}.lora_down.weight"] = down
        out[f"{layer}.lora_up.weight"] = (up * np.float16(0.5)).astype(np.float16)
        out[f"{layer}.alpha"] = np.array(ALPHA, dtype=np.float16)
    save_file(out, path)
    print(f"{path}: {len(out) // 3} layers")


if __name__ == "__main__":
    write(sys.argv[1])
