"""Writes philox.txt: what `torch.randn` gives on a CUDA card. torch 2.11.0, an NVIDIA H200 (132 x 2048 threads).

A line: numbers drawn, seed, index of the first value, eight values (all where fewer). The line `then` holds a
second draw from the generator of the line before it. Cards agree up to the threads they keep resident.
"""

import torch

lines = []


def line(head, values, at):
    lines.append(" ".join([head, str(at), *(repr(v) for v in values[at : at + 8].tolist())]))


for n in (4, 1000, 16384, 32768, 131072):
    for seed in (0, 42, 2**40 + 3):
        values = torch.randn(n, device="cuda", generator=torch.Generator("cuda").manual_seed(seed)).cpu()
        line(f"{n} {seed}", values, 0)
        if n > 8:
            line(f"{n} {seed}", values, n - 8)
generator = torch.Generator("cuda").manual_seed(7)
line("1000 7", torch.randn(1000, device="cuda", generator=generator).cpu(), 0)
line("then 256", torch.randn(256, device="cuda", generator=generator).cpu(), 0)
open("philox.txt", "w").write("\n".join(lines) + "\n")
