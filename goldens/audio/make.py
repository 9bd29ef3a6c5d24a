"""Writes the goldens of resampling: short sounds as WAV, and what torchaudio makes of them.

    python goldens/audio/make.py

Pinned: torch 2.12.1, torchaudio 2.11.0, numpy 1.26.4.
"""

import pathlib
import struct

import numpy as np
import torch
import torchaudio

HERE = pathlib.Path(__file__).parent


def write(name, rate, samples):
    data = samples.numpy().astype("<f4").T.tobytes()
    channels = samples.shape[0]
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 3, channels, rate,
                       rate * channels * 4, channels * 4, 32, b"data", len(data))  # fmt: skip
    (HERE / name).write_bytes(head + data)


def main():
    torch.manual_seed(1)
    for source, target in [(44_100, 16_000), (48_000, 16_000), (8_000, 16_000), (22_050, 44_100)]:
        n = 1_501
        time = torch.arange(n, dtype=torch.float64) / source
        # A rising tone beyond either rate's half, and noise.
        tone = 0.5 * torch.sin(2 * np.pi * (200 + 0.5 * source / (n / source) * time / 2) * time)
        samples = torch.stack([tone, 0.2 * torch.randn(n, dtype=torch.float64)]).float()
        write(f"{source}.wav", source, samples)
        write(f"{source}_{target}.wav", target, torchaudio.functional.resample(samples, source, target))


if __name__ == "__main__":
    main()
