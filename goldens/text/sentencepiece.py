"""Writes a small vocabulary of sentencepiece and the ids it gives, laid out as UMT5's is.

    pip install sentencepiece==0.2.1
    python goldens/text/sentencepiece.py

`small/spiece.model` has UMT5's special pieces (0 padding, 1 the end, 2 what it lacks), its
normalization and its bytes for characters without a piece. `small/spiece.json` has [text, ids].
"""

import io
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path = [p for p in sys.path if Path(p or ".").resolve() != HERE.resolve()]

import sentencepiece as spm  # noqa: E402

sys.path.append(str(HERE))
import texts  # noqa: E402

LINES = [
    "a red fox in deep snow turns its head and looks at the camera",
    "the quick brown fox jumps over the lazy dog",
    "a jumping frog on a lily pad, morning light, ultra detailed",
    "two cats play piano in a small room with yellow walls",
    "ein roter Fuchs im tiefen Schnee dreht den Kopf",
    "un renard roux dans la neige profonde tourne la tête",
]
EXTRA = ["", " ", "a  red\tfox\n", "red🦊fox", "雪の狐", "ｆｏｘ ﬁre", "</s> <pad>", "\u2581a\u2581b", "x" * 40]


def main():
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 20), model_writer=model, vocab_size=420, model_type="unigram", byte_fallback=True,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, hard_vocab_limit=False, num_threads=1, minloglevel=2,
    )
    model = model.getvalue()
    (HERE / "small/spiece.model").write_bytes(model)
    processor = spm.SentencePieceProcessor(model_proto=model)
    rows = [[text, processor.encode(text)] for text in LINES + EXTRA + [p for p, _ in texts.prompts() if len(p) < 400]]
    (HERE / "small/spiece.json").write_text(json.dumps(rows, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
