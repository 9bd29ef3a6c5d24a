"""Times stable-diffusion.cpp and `nino` on one device by turns: whole images from one checkpoint.

    python peers/sdcpp.py run FOLDER CHECKPOINT --sd sd-cli --nino target/release/nino --rounds 3
    python peers/sdcpp.py table FOLDER

In a round every program makes one image with the same checkpoint, size, steps and CFG scale, each
in a process of its own, and `run` appends its times to FOLDER/images.jsonl: seconds a step (two
predictions: prompt and negative), seconds of the decode, seconds in all, and the most memory the
process held. stable-diffusion.cpp is run with the settings named in SD, as none of them is the
fastest everywhere; it is to be judged by the best.
It is built with `cmake -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON
-DGGML_LLAMAFILE=ON -DGGML_BLAS=ON -DGGML_BLAS_VENDOR=OpenBLAS` (for a GPU also -DSD_VULKAN=ON);
without BLAS and llamafile a step took 1.4 times as long. `cargo run --release -p nino-engine --example second_picture -- cpu
sd15.safetensors 0 --make` writes a checkpoint of SD 1.5 with random weights in f16: the speed of a
dense network does not depend on their values.
"""

import argparse
import collections
import json
import pathlib
import re
import statistics
import subprocess
import time

PROMPT = "a red fox in snow"
SD = {
    "sd.cpp": [],
    "sd.cpp, flash attention": ["--diffusion-fa"],
    "sd.cpp, direct convolutions": ["--diffusion-conv-direct", "--vae-conv-direct"],
    "sd.cpp, Q8_0": ["--type", "q8_0"],
    "sd.cpp, Q8_0, flash attention": ["--type", "q8_0", "--diffusion-fa"],
}
NINO = {
    "nino auto": [],
    "nino bf16": ["--precision", "bf16"],
    "nino fp32": ["--precision", "fp32"],
    "nino auto, Q8_0": ["--quantize", "q8_0"],
    "nino bf16, Q8_0": ["--precision", "bf16", "--quantize", "q8_0"],
    "nino fp32, Q8_0": ["--precision", "fp32", "--quantize", "q8_0"],
}


def timed(command):
    """Standard output and error, seconds, and the peak of memory in bytes."""
    measured = ["/usr/bin/time", "-f", "PEAK %M"] + [str(word) for word in command]
    start = time.perf_counter()
    done = subprocess.run(measured, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    peak = int(re.findall(r"PEAK (\d+)", done.stderr)[-1]) * 1024
    return done.stdout, done.stderr, seconds, peak


def sd_cpp(flags, args):
    picture = args.folder / "sd.png"
    command = [args.sd, "-m", args.checkpoint, "-p", PROMPT, "-n", "blurry", "-o", picture]
    command += ["-W", args.size, "-H", args.size, "--steps", args.steps, "--cfg-scale", 7]
    command += ["--sampling-method", "euler", "--scheduler", "discrete", "--seed", 1, "--rng", "cpu"]
    command += ["-t", args.threads] + flags
    out, err, seconds, peak = timed(command)

    def said(what):
        return float(re.findall(what + r" completed, taking ([\d.]+)s", out + err)[-1])

    return {
        "step": said("sampling") / args.steps,
        "decode": said("decode_first_stage"),
        "total": seconds,
        "peak": peak,
    }


def nino(flags, args):
    command = [args.nino, "generate", PROMPT, "--negative", "blurry", "--model", args.checkpoint]
    command += ["--size", args.size, "--steps", args.steps, "--cfg", 7, "--sampler", "euler"]
    command += ["--scheduler", "normal", "--seed", 1, "--device", args.device, "--json"]
    command += ["--threads", args.threads, "-o", args.folder / "nino.png"] + flags
    out, _, seconds, peak = timed(command)
    found = json.loads(out)
    return {
        "step": found["sample_ms"] / 1e3 / args.steps,
        "decode": found["decode_ms"] / 1e3,
        "total": seconds,
        "peak": peak,
    }


def run(args):
    args.folder.mkdir(parents=True, exist_ok=True)
    calls = [(name, sd_cpp, flags) for name, flags in SD.items()]
    calls += [(name, nino, flags) for name, flags in NINO.items()]
    for _ in range(args.rounds):
        for name, call, flags in calls:
            if args.only and name not in args.only:
                continue
            found = {"what": name, **call(flags, args)}
            print(found, flush=True)
            with open(args.folder / "images.jsonl", "a") as log:
                log.write(json.dumps(found) + "\n")


def table(args):
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in open(args.folder / "images.jsonl"):
        entry = json.loads(line)
        for key in ["step", "decode", "total", "peak"]:
            found[entry["what"]][key].append(entry[key])

    def cell(values):
        return f"{statistics.median(values):.2f} [{min(values):.2f}..{max(values):.2f}]"

    print("| program | n | s a step | s of the decode | s in all | memory |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for what, keys in found.items():
        cells = " | ".join(cell(keys[key]) for key in ["step", "decode", "total"])
        print(f"| {what} | {len(keys['step'])} | {cells} | {max(keys['peak']) / 2**30:.2f} GiB |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ["run", "table"]:
        sub = verbs.add_parser(verb)
        sub.add_argument("folder", type=pathlib.Path)
        if verb == "run":
            sub.add_argument("checkpoint", type=pathlib.Path)
            sub.add_argument("--sd", required=True, help="stable-diffusion.cpp's sd-cli")
            sub.add_argument("--nino", default="target/release/nino")
            sub.add_argument("--device", default="cpu", help="of nino")
            sub.add_argument("--size", type=int, default=512)
            sub.add_argument("--steps", type=int, default=4)
            sub.add_argument("--threads", type=int, default=2)
            sub.add_argument("--rounds", type=int, default=1)
            sub.add_argument("--only", nargs="*", help=", ".join([*SD, *NINO]))
    args = parser.parse_args()
    {"run": run, "table": table}[args.verb](args)


if __name__ == "__main__":
    main()
