"""Times PyTorch in f32 and `nino` on one CPU by turns: layers of T5-XXL, blocks of Flux.1 dev.

    python peers/pytorch_cpu.py t5 flux --nino target/release/nino [--threads 2] [--rounds 2]
Each round runs PyTorch, then `nino bench` with f16 and Q8_0 weights, each with activations in f32
and in bf16; the table has the medians of the rounds, and what memory was planned and taken.
T5 has four layers and 256 tokens; Flux one block of each kind at 1024x1024 with 512 tokens, both at
full width. Weights are random: the speed of a dense network does not depend on their values.
Needs torch 2.11, diffusers 0.42, transformers 5.17 and safetensors 0.8.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
from safetensors.torch import save_file

T5_LAYERS, T5_TOKENS = 4, 256


def made(make):
    """A module in f32 with random weights."""
    with torch.device("meta"):
        module = make()
    module = module.to_empty(device="cpu").float().eval()
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
            torch.nn.init.normal_(tensor, std=0.02)
    return module


def t5(args, folder):
    """The module, a call of it, and what `nino bench generate` is given for each kind of weights."""
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        vocab_size=32128,
        d_model=4096,
        d_kv=64,
        d_ff=10240,
        num_layers=T5_LAYERS,
        num_heads=64,
        feed_forward_proj="gated-gelu",
    )
    module = made(lambda: T5EncoderModel(config))
    inputs = {"input_ids": torch.randint(0, 32000, (1, T5_TOKENS))}
    name = f"text t5-xxl {T5_LAYERS} layers {T5_TOKENS} tokens, device's activations, "
    return module, inputs, {held: ["--filter", name + held] for held in ("f16", "q8_0")}


def flux(args, folder):
    from diffusers import FluxTransformer2DModel

    config = {"num_layers": 1, "num_single_layers": 1, "guidance_embeds": True}
    module = made(lambda: FluxTransformer2DModel(**config))
    plain, packed = [pathlib.Path(folder) / name for name in ("f16.safetensors", "q8_0.gguf")]
    save_file({k: v.half().contiguous() for k, v in module.state_dict().items()}, plain)
    if args.nino:
        convert = [args.nino, "convert", plain, packed, "--type", "q8_0", "--quiet"]
        subprocess.run(convert, check=True, capture_output=True)
    inputs = {
        "hidden_states": torch.randn(1, 4096, 64),
        "encoder_hidden_states": torch.randn(1, 512, 4096),
        "pooled_projections": torch.randn(1, 768),
        "timestep": torch.full((1,), 0.5),
        "guidance": torch.full((1,), 3.5),
        "img_ids": torch.zeros(4096, 3),
        "txt_ids": torch.zeros(512, 3),
        "return_dict": False,
    }
    names = {"f16": plain, "q8_0": packed}
    return module, inputs, {held: ["--model", path, "--filter", "flux"] for held, path in names.items()}


ROWS = {"t5": t5, "flux": flux}


def pytorch_times(module, inputs, runs):
    times = []
    with torch.inference_mode():
        for _ in range(runs + 1):
            start = time.perf_counter()
            module(**inputs)
            times.append((time.perf_counter() - start) * 1e3)
    return times[1:]


def nino_row(args, given, precision):
    command = [args.nino, "bench", "generate", "--device", "cpu", "--json", "--precision", precision]
    command += [*given, "--runs", str(args.runs), "--threads", str(args.threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["rows"][0]


def measure(row, args):
    with tempfile.TemporaryDirectory() as folder:
        module, inputs, weights = ROWS[row](args, folder)
        times, memory = {}, {}
        for _ in range(args.rounds):
            found = pytorch_times(module, inputs, args.runs)
            times.setdefault("pytorch f32", []).extend(found)
            print(f"{row} pytorch f32: {[round(ms) for ms in found]} ms", flush=True)
            for held, given in weights.items() if args.nino else []:
                for precision in args.precisions:
                    found = nino_row(args, given, precision)
                    key = f"nino {held}, {precision} activations"
                    times.setdefault(key, []).append(found["median_ms"])
                    print(f"{row} {key}: {found['median_ms']:.0f} ms", flush=True)
                    planned, taken = found["planned_bytes"], found["allocated_bytes"]
                    memory[key] = f", planned {planned >> 20} MiB, taken {taken / planned:.3f} of it"
    base = statistics.median(times["pytorch f32"])
    for key, found in times.items():
        median = statistics.median(found)
        print(
            f"{row} {key}: median {median:.0f} ms, {min(found):.0f} to {max(found):.0f},"
            f" {median / base:.2f} of PyTorch's{memory.get(key, '')}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", choices=ROWS)
    parser.add_argument("--nino", help="the program; without it only PyTorch is timed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print("torch", torch.__version__, "threads", args.threads)
    for row in args.rows:
        measure(row, args)


if __name__ == "__main__":
    main()
