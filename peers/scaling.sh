#!/bin/bash
# Times a step of SD 1.5 and a decode from 1 to 16 threads on this machine, with and without bf16,
# and leaves what each op took, for finding out what does not scale.
#
#     bash peers/scaling.sh target/release/nino FOLDER
#
# MODES and THREADS are "bf16 fp32" and "16 8 4 2 1" unless set. Weights are made up. On 16 cores
# it takes about five minutes. `nino` is all it needs beside the table's Python.
set -eu
nino=$1
folder=$2
mkdir -p "$folder"
lscpu | grep -E "Model name|Thread|Socket|NUMA|L2|L3"

table() {
    python3 - "$folder/$1.json" "$1" <<'PYTHON'
import json, sys
row = json.load(open(sys.argv[1]))["rows"][0]
memory = row["resident_peak_bytes"] / 2**30
print(f"{sys.argv[2]}: fastest {row['fastest_ms']:.0f} ms, median {row['median_ms']:.0f} ms, {memory:.2f} GiB")
PYTHON
}

for mode in ${MODES:-bf16 fp32}; do
    for threads in ${THREADS:-16 8 4 2 1}; do
        runs=3
        [ "$threads" -le 2 ] && runs=1
        flags="--device cpu --json --profile --threads $threads --runs $runs --precision $mode"
        for weights in f16 q8_0; do
            name=unet-$weights-$mode-$threads
            "$nino" bench generate $flags --filter "unet sd15 512x512 batch 2 $weights" \
                >"$folder/$name.json"
            table "$name"
        done
        name=vae-$mode-$threads
        "$nino" bench decode $flags --no-quality --filter "image 512x512" >"$folder/$name.json"
        table "$name"
        name=t5-$mode-$threads
        "$nino" bench generate $flags --filter "t5-xxl 4 layers 256 tokens, device's activations, f16" \
            >"$folder/$name.json"
        table "$name"
    done
done
