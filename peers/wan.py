"""Times diffusers' Wan transformer with made-up weights, beside `nino bench generate --video`.

    pip install torch==2.11.0 diffusers==0.42.0
    python peers/wan.py 1.3b|14b|5b block|step FRAMES WIDTH HEIGHT [--device cuda|cpu] \\
        [--dtype bf16|f16|f32] [--compile] [--runs N]

One prompt of 512 tokens, from inputs on the device to the prediction on the device. Prints one line
of JSON: the median and the range of the runs after two warm-ups, in milliseconds.
"""

import argparse
import json
import statistics
import time

import torch
from diffusers import WanTransformer3DModel

# Heads, width of the MLP, layers, channels in and out, pixels of a latent pixel.
SIZES = {"1.3b": (12, 8960, 30, 16, 16, 8), "14b": (40, 13824, 40, 36, 16, 8), "5b": (24, 14336, 30, 48, 48, 16)}
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=SIZES)
    parser.add_argument("part", choices=["block", "step"])
    for name in ("frames", "width", "height"):
        parser.add_argument(name, type=int)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bf16", choices=DTYPES)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    heads, mlp, layers, n_in, n_out, scale = SIZES[args.model]
    device, dtype = torch.device(args.device), DTYPES[args.dtype]
    with torch.device("meta"):
        model = WanTransformer3DModel(
            num_attention_heads=heads, attention_head_dim=128, in_channels=n_in, out_channels=n_out, ffn_dim=mlp,
            num_layers=1 if args.part == "block" else layers,
        )  # fmt: skip
    model = model.to(dtype).to_empty(device=device).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.02)
        # Buffers of positions were empty, too.
        model.rope = type(model.rope)(128, (1, 2, 2), 1024).to(device)
    frames = (args.frames + 3) // 4
    x = torch.randn(1, n_in, frames, args.height // scale, args.width // scale, device=device, dtype=dtype)
    context = torch.randn(1, 512, 4096, device=device, dtype=dtype)
    t = torch.tensor([500.0], device=device)
    run = torch.compile(model) if args.compile else model
    wait = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    times = []
    with torch.no_grad():
        for i in range(args.runs + 2):
            wait()
            started = time.perf_counter()
            run(hidden_states=x, timestep=t, encoder_hidden_states=context, return_dict=False)
            wait()
            if i >= 2:
                times.append(1e3 * (time.perf_counter() - started))
    print(json.dumps({**vars(args), "median_ms": statistics.median(times), "range_ms": [min(times), max(times)]}))


main()
