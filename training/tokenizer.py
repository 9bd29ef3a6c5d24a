"""Byte-pair tokenizer in CLIP's format (vocab.json + merges.txt, lower-cased, `</w>` ends a word), and its trainer."""

import json
import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

CONTEXT = 32
PIECES = re.compile(r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[^\W\d_]+|\d|[^\s\w]+|_", re.IGNORECASE)


def byte_symbols():
    """GPT-2's printable stand-in for each byte, in CLIP's vocabulary order."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


SYMBOLS = byte_symbols()


def word_symbols(word):
    symbols = [SYMBOLS[b] for b in word.encode()]
    return (*symbols[:-1], symbols[-1] + "</w>")


def merge(symbols, pair):
    out, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            out.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return tuple(out)


def split(text):
    return PIECES.findall(" ".join(text.lower().split()))


def train(word_counts, n_vocab):
    """Learns merges from {word: count} until the vocabulary has n_vocab pieces."""
    words = {word_symbols(w): c for w, c in word_counts.items()}
    merges = []
    while len(merges) < n_vocab - 514:
        pairs = Counter()
        for symbols, count in words.items():
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(best)
        words = {merge(s, best) if best[0] in s and best[1] in s else s: c for s, c in words.items()}
    pieces = [*SYMBOLS.values(), *(s + "</w>" for s in SYMBOLS.values()), *("".join(m) for m in merges)]
    return [*pieces, "<|startoftext|>", "<|endoftext|>"], merges


def save(folder, pieces, merges):
    folder = Path(folder)
    (folder / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(pieces)}, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))


class Tokenizer:
    def __init__(self, source):
        """source: a folder with vocab.json and merges.txt, or an exported file's metadata, which holds both."""
        read = (lambda name: source[name]) if isinstance(source, dict) else (lambda name: (Path(source) / name).read_text())
        self.vocab = json.loads(read("vocab.json"))
        lines = read("merges.txt").splitlines()[1:]
        self.ranks = {tuple(line.split()): i for i, line in enumerate(lines)}
        self.start, self.end = self.vocab["<|startoftext|>"], self.vocab["<|endoftext|>"]
        self.word = lru_cache(maxsize=None)(self._word)

    def _word(self, word):
        symbols = word_symbols(word)
        while len(symbols) > 1:
            best = min(zip(symbols, symbols[1:]), key=lambda p: self.ranks.get(p, 1 << 30))
            if best not in self.ranks:
                break
            symbols = merge(symbols, best)
        return tuple(self.vocab[s] for s in symbols)

    def encode(self, text):
        """Ids without padding: start, at most CONTEXT - 2 pieces, end."""
        ids = [i for word in split(text) for i in self.word(word)]
        return [self.start, *ids[: CONTEXT - 2], self.end]

    def padded(self, text):
        ids = self.encode(text)
        return ids + [self.end] * (CONTEXT - len(ids))
