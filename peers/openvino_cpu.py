"""Times OpenVINO and `nino` on one CPU by turns: a step of SD 1.5, a decode, layers of T5-XXL.

    python peers/openvino_cpu.py sd15 vae t5 --nino target/release/nino [--threads 2] [--rounds 3]
Each round runs OpenVINO in bf16 and f32, then `nino bench` in bf16 and f32 and with Q8_0 weights;
the table has the best and the median of all runs. Weights are random: the speed of a dense network
does not depend on their values.
Needs openvino 2026.4, torch 2.11, diffusers 0.42 and transformers 5.17.
"""

import argparse
import gc
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import openvino
import torch

T5_LAYERS = 4


def made(make):
    """A module in f32 with random weights."""
    with torch.device("meta"):
        module = make()
    module = module.to_empty(device="cpu").float().eval()
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
            torch.nn.init.normal_(tensor, std=0.02)
    return module


def sd15():
    from diffusers import UNet2DConditionModel

    config = {"sample_size": 64, "cross_attention_dim": 768}
    module = made(lambda: UNet2DConditionModel(**config))
    inputs = {
        "sample": torch.randn(2, 4, 64, 64),
        "timestep": torch.tensor(500.0),
        "encoder_hidden_states": torch.randn(2, 77, 768),
    }
    rows = ["generate", "unet sd15 512x512 batch 2 "]
    return module, inputs, rows, ["f16", "q8_0"]


def vae():
    from diffusers.models.autoencoders.vae import Decoder

    module = made(
        lambda: Decoder(
            in_channels=4,
            out_channels=3,
            up_block_types=("UpDecoderBlock2D",) * 4,
            block_out_channels=(128, 256, 512, 512),
            layers_per_block=2,
        )
    )
    inputs = {"sample": torch.randn(1, 4, 64, 64)}
    return module, inputs, ["decode", "image 512x512"], [None]


def t5(tokens=256):
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
    inputs = {"input_ids": torch.randint(0, 32000, (1, tokens))}
    name = f"text t5-xxl {T5_LAYERS} layers {tokens} tokens, device's activations, "
    return module, inputs, ["generate", name], ["f16", "q8_0"]


ROWS = {"sd15": sd15, "vae": vae, "t5": t5}


def small(tensor):
    """The same for a small picture, which is enough to trace a network."""
    return tensor[..., :16, :16] if tensor.dim() == 4 else tensor


def converted(module, inputs, folder):
    """Writes the network as OpenVINO reads it, weights in f16."""
    example = {name: small(tensor) for name, tensor in inputs.items()}
    with torch.no_grad():
        model = openvino.convert_model(module, example_input=example)
    shapes = [list(tensor.shape) for tensor in inputs.values()]
    model.reshape(dict(zip(model.inputs, shapes)))
    path = pathlib.Path(folder) / "model.xml"
    openvino.save_model(model, path, compress_to_fp16=True)
    return path


def compiled(path, precision, threads):
    config = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    return openvino.Core().compile_model(path, "CPU", config)


def openvino_times(network, inputs, runs):
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        network(inputs)
        times.append((time.perf_counter() - start) * 1e3)
    return times[1:]


def nino_times(nino, row, weights, precision, threads, runs):
    verb, name = row
    command = [nino, "bench", verb, "--device", "cpu", "--json", "--precision", precision]
    command += ["--filter", name + (weights or ""), "--runs", str(runs), "--threads", str(threads)]
    if verb == "decode":
        command.append("--no-quality")
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    first = json.loads(done.stdout)["rows"][0]
    return [first["fastest_ms"], first["median_ms"]]


def measure(row, args):
    with tempfile.TemporaryDirectory() as folder:
        module, inputs, name, weights = ROWS[row]()
        path = converted(module, inputs, folder)
        del module
        gc.collect()
        arrays = [tensor.numpy() for tensor in inputs.values()]
        times = {}
        for _ in range(args.rounds):
            for precision in ["bf16", "f32"]:
                network = compiled(path, precision, args.threads)
                found = openvino_times(network, arrays, args.runs)
                times.setdefault(f"openvino {precision}", []).extend(found)
                del network
                gc.collect()
            for precision in ["bf16", "fp32"] if args.nino else []:
                for held in weights:
                    found = nino_times(args.nino, name, held, precision, args.threads, args.runs)
                    key = f"nino {precision}" + (f", weights {held}" if held else "")
                    times.setdefault(key, []).extend(found)
    base = min(times["openvino bf16"])
    for key, found in times.items():
        print(
            f"{row} {key}: best {min(found):.0f} ms, median {statistics.median(found):.0f} ms,"
            f" {min(found) / base:.2f} of OpenVINO's bf16",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="+", choices=ROWS)
    parser.add_argument("--nino", help="the program; without it only OpenVINO is timed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    print("openvino", openvino.__version__, "torch", torch.__version__)
    for row in args.rows:
        measure(row, args)


if __name__ == "__main__":
    main()
