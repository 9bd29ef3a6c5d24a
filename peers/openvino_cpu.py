"""Times OpenVINO, PyTorch and `nino` on one CPU by turns: a step of SD 1.5, a decode, T5-XXL.

    python peers/openvino_cpu.py make FOLDER sd15 vae t5
    python peers/openvino_cpu.py run FOLDER sd15 --nino target/release/nino --rounds 2
    python peers/openvino_cpu.py table FOLDER

`make` converts the networks, `run` adds rounds to FOLDER/times.jsonl, and `table` prints all of
them. In a round each program runs once, in a process of its own, with one untimed run and then
--runs timed ones; memory is the most that the process held, the interpreter included. Weights are
random: the speed of a dense network does not depend on their values.
Needs openvino 2026.4, torch 2.11, diffusers 0.42 and transformers 5.17.
"""

import argparse
import collections
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time

T5_LAYERS = 4

# The bench's verb and row for each network, and the weights that rows differ in.
NINO = {
    "sd15": ("generate", "unet sd15 512x512 batch 2 ", ["f16", "q8_0"]),
    "vae": ("decode", "image 512x512", [None]),
    "t5": (
        "generate",
        f"text t5-xxl {T5_LAYERS} layers 256 tokens, device's activations, ",
        ["f16", "q8_0"],
    ),
}
# OpenVINO keeps threads on their cores unless told otherwise; which is faster depends on what else
# the cores do. Of both, the faster one is what others are measured by.
OTHERS = [
    "openvino bf16",
    "openvino bf16 unpinned",
    "openvino f32",
    "pytorch bf16",
    "pytorch f32",
]


def made(make, dtype):
    """A module with random weights."""
    import torch

    with torch.device("meta"):
        module = make().to(dtype)
    module = module.to_empty(device="cpu").eval()
    for tensor in [*module.parameters(), *module.buffers()]:
        if tensor.is_floating_point():
            tensor.data.uniform_(-0.03, 0.03)
    return module


def sd15(dtype):
    import torch
    from diffusers import UNet2DConditionModel

    config = {"sample_size": 64, "cross_attention_dim": 768}
    inputs = {
        "sample": torch.randn(2, 4, 64, 64),
        "timestep": torch.tensor(500.0),
        "encoder_hidden_states": torch.randn(2, 77, 768),
    }
    return made(lambda: UNet2DConditionModel(**config), dtype), inputs


def vae(dtype):
    import torch
    from diffusers.models.autoencoders.vae import Decoder

    config = {
        "in_channels": 4,
        "out_channels": 3,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
        "block_out_channels": (128, 256, 512, 512),
        "layers_per_block": 2,
    }
    return made(lambda: Decoder(**config), dtype), {"sample": torch.randn(1, 4, 64, 64)}


def t5(dtype):
    import torch
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
    ids = torch.randint(0, 32000, (1, 256))
    return made(lambda: T5EncoderModel(config), dtype), {"input_ids": ids}


NETWORKS = {"sd15": sd15, "vae": vae, "t5": t5}


def convert(row, folder):
    """Writes a network as OpenVINO reads it, with weights in f16."""
    import openvino
    import torch

    def small(tensor):
        # A small picture is enough to trace a network.
        return tensor[..., :16, :16] if tensor.dim() == 4 else tensor

    module, inputs = NETWORKS[row](torch.float32)
    example = {name: small(tensor) for name, tensor in inputs.items()}
    with torch.no_grad():
        model = openvino.convert_model(module, example_input=example)
    shapes = [list(tensor.shape) for tensor in inputs.values()]
    model.reshape(dict(zip(model.inputs, shapes)))
    openvino.save_model(model, folder / f"{row}.xml", compress_to_fp16=True)


def openvino_call(row, precision, folder, threads, pinned):
    import numpy
    import openvino

    config = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "EXECUTION_MODE_HINT": "PERFORMANCE" if precision == "bf16" else "ACCURACY",
        "ENABLE_CPU_PINNING": pinned,
    }
    network = openvino.Core().compile_model(folder / f"{row}.xml", "CPU", config)
    random = numpy.random.default_rng(1)

    def made_up(port):
        if port.element_type.is_real():
            return random.standard_normal(list(port.shape), dtype=numpy.float32)
        return random.integers(0, 32000, list(port.shape))

    inputs = [made_up(port) for port in network.inputs]
    request = network.create_infer_request()
    return lambda: request.infer(inputs)


def pytorch_call(row, precision, threads):
    import torch

    torch.set_num_threads(threads)
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[precision]
    module, inputs = NETWORKS[row](dtype)
    module = module.to(memory_format=torch.channels_last) if row != "t5" else module
    inputs = {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}

    def call():
        with torch.inference_mode():
            module(**inputs)

    return call


def child(args):
    """Times one program in this process and prints what was found as JSON."""
    program, precision, *more = args.what.split()
    if program == "openvino":
        call = openvino_call(args.row, precision, args.folder, args.threads, not more)
    else:
        call = pytorch_call(args.row, precision, args.threads)
    times = []
    for _ in range(args.runs + 1):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"times": times[1:], "peak": peak}))


def other(what, row, args):
    command = [sys.executable, __file__, "child", str(args.folder), row, "--what", what]
    command += ["--runs", str(args.runs), "--threads", str(args.threads)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def nino(precision, weights, row, args):
    verb, name, _ = NINO[row]
    command = [args.nino, "bench", verb, "--device", "cpu", "--json", "--precision", precision]
    command += ["--filter", name + (weights or ""), "--runs", str(args.runs)]
    command += ["--threads", str(args.threads)]
    if verb == "decode":
        command.append("--no-quality")
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    first = json.loads(done.stdout)["rows"][0]
    return {"times": first["times_ms"], "peak": first["resident_peak_bytes"]}


def round_of(row, args):
    """Gives a name and a call for each program of a round."""
    for what in [w for w in OTHERS if not set(w.split()) & set(args.without)]:
        yield what, lambda what=what: other(what, row, args)
    for precision in [p for p in ["bf16", "fp32"] if args.nino and p not in args.without]:
        for held in NINO[row][2]:
            name = f"nino {precision}" + (f", weights {held}" if held else "")
            yield name, lambda p=precision, h=held: nino(p, h, row, args)


def run(args):
    for _ in range(args.rounds):
        for name, call in round_of(args.row, args):
            found = {"row": args.row, "what": name, **call()}
            print(name, *(f"{t:.0f}" for t in found["times"]), flush=True)
            with open(args.folder / "times.jsonl", "a") as log:
                log.write(json.dumps(found) + "\n")


def table(args):
    found = collections.defaultdict(lambda: ([], []))
    for line in open(args.folder / "times.jsonl"):
        entry = json.loads(line)
        times, peaks = found[entry["row"], entry["what"]]
        times.extend(entry["times"])
        peaks.append(entry["peak"])
    print("| network | program | n | median ms [range] | of OpenVINO bf16 | memory |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for (row, what), (times, peaks) in found.items():
        rivals = [times for (r, w), (times, _) in found.items() if r == row and "openvino bf16" in w]
        base = min((statistics.median(times) for times in rivals), default=float("nan"))
        median = statistics.median(times)
        print(
            f"| {row} | {what} | {len(times)} | {median:.0f} [{min(times):.0f}..{max(times):.0f}]"
            f" | {median / base:.2f} | {max(peaks) / 2**30:.2f} GiB |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ["make", "run", "child", "table"]:
        sub = verbs.add_parser(verb)
        sub.add_argument("folder", type=pathlib.Path)
        if verb == "make":
            sub.add_argument("rows", nargs="+", choices=NETWORKS)
        if verb in ["run", "child"]:
            sub.add_argument("row", choices=NETWORKS)
            sub.add_argument("--threads", type=int, default=2)
            sub.add_argument("--runs", type=int, default=3)
        if verb == "run":
            sub.add_argument("--nino", help="the program; without it only the others are timed")
            sub.add_argument("--rounds", type=int, default=1)
            sub.add_argument(
                "--without", nargs="*", default=[], help="openvino, pytorch, unpinned, f32, fp32, …"
            )
        if verb == "child":
            sub.add_argument("--what", choices=OTHERS, required=True)
    args = parser.parse_args()
    if args.verb == "make":
        args.folder.mkdir(parents=True, exist_ok=True)
        for row in args.rows:
            convert(row, args.folder)
    else:
        {"run": run, "child": child, "table": table}[args.verb](args)


if __name__ == "__main__":
    main()
