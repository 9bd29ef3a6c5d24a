"""Builds the training set from the fetched packages: images.bin (WebP pictures), set.npz (scenes, captions, weights),
set.json (names, held-out lists), vocab.json and merges.txt. A scene is a background and up to three layers (picture,
recoloring, place); the trainer renders and encodes the scenes on the GPU, so that the set stays under 45 MB.

    python build_set.py build/npm build/set [build/earlier-set]

An earlier set lends its vocabulary and its unseen pairs, so that a model trained on it can go on with the new one.
"""

import colorsys
import io
import json
import random
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from PIL import Image

import tokenizer
from words import ALIASES, BACKGROUNDS, COLORS, FACES, PROMPTS, STYLES, WEAR

N_VOCAB = 3072
N_PAIRS = 12000
BACKGROUND_COLORS = 0.3  # chance that a recolored picture also comes on a colored background
GROUP_WEIGHT = {"Smileys & Emotion": 1.0, "People & Body": 0.3, "Animals & Nature": 1.6, "Food & Drink": 1.6, "Travel & Places": 1.3,
                "Activities": 1.3, "Objects": 1.3, "Symbols": 0.3, "Flags": 0.3}  # fmt: skip
THINGS = ("Animals & Nature", "Food & Drink", "Travel & Places", "Activities", "Objects")
SKIP = re.compile(r"japanese|button|keycap|input |o' ?clock|oclock|thirty|^flag |trade mark|copyright|registered|regional|skin tone|double exclamation")
ONE_WAY = re.compile(r"left|right|arrow|clock|letter|symbol|number|mark|sign|abc|book|note|backhand|flag|calendar|keyboard|chart")
COLOR_WORD = re.compile(r"\b(red|orange|yellow|green|blue|purple|pink|brown|black|white|gray|grey|golden|gold)\b ?")
KIND_SHARE = {"base": 0.44, "background": 0.11, "flat": 0.09, "noto": 0.08, "color": 0.14, "pair": 0.08, "wear": 0.04, "count": 0.02}

rng = random.Random(6)
backgrounds, colors = list(BACKGROUNDS), list(COLORS)


def clean(text):
    text = text.lower().replace("’", "'").replace("-", " ").replace("_", " ").replace("&", "and")
    return " ".join(re.sub(r"[^a-z0-9' ]", " ", text).split())


def code(text):
    return "-".join(f"{ord(c):04x}" for c in text if c != "\ufe0f")


def article(noun):
    if noun.endswith("s") and not noun.endswith("ss"):
        return noun
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def plural(noun):
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "sh", "ch", "x")) else "s")


def read_emoji(npm):
    """Every emoji without skin tones and country flags: key, names with weights, keywords, group."""
    node = npm / "node_modules"
    data = json.loads((node / "unicode-emoji-json/data-by-emoji.json").read_text())
    lib = json.loads((node / "emojilib/dist/emoji-en-US.json").read_text())
    cldr = json.loads((node / "cldr-annotations-full/annotations/en/annotations.json").read_text())["annotations"]["annotations"]
    emoji = []
    for text, entry in data.items():
        name, group = clean(entry["name"]), entry["group"]
        if SKIP.search(name) or (group == "Flags" and code(text).startswith("1f1")):
            continue
        annotation = cldr.get(text) or cldr.get(text.replace("\ufe0f", "")) or {}
        keywords = [clean(k) for k in [*annotation.get("default", []), *lib.get(text, [])]]
        keywords = [k for k in dict.fromkeys(keywords) if re.fullmatch(r"[a-z][a-z ']{1,24}", k) and k != name]
        aliases = [clean(a) for a in ALIASES.get(entry["name"].lower(), [])]
        tts = [clean(t) for t in annotation.get("tts", [])]
        aliases += [t for t in tts if t and t != name and t not in aliases]
        emoji.append({"key": code(text), "name": name, "aliases": aliases, "keywords": keywords, "group": group})
    return emoji


def pack_pictures(npm, emoji, out):
    """Writes images.bin; returns the picture list [(style, emoji index, offset, size)] and small RGBA copies of the 3D ones."""
    asset = {p.stem.replace("-fe0f", ""): p for p in (npm / "node_modules/@lobehub/fluent-emoji-3d/assets").glob("*.webp")}
    pictures, small, offset = [], {}, 0
    with open(out / "images.bin", "wb") as file:
        for style in STYLES:
            for i, e in enumerate(emoji):
                path = asset.get(e["key"]) if style == "3d" else npm / f"png/{style}/{e['key']}.png"
                if path is None or not path.exists() or path.stat().st_size == 0:
                    continue
                data, image = path.read_bytes(), Image.open(path).convert("RGBA")
                if style == "3d":
                    small[len(pictures)] = np.asarray(image.resize((64, 64), Image.BOX), np.float32) / 255
                else:
                    box = Image.new("RGBA", (256, 256))
                    image.thumbnail((256, 256))
                    box.paste(image, ((256 - image.width) // 2, (256 - image.height) // 2))
                    buffer = io.BytesIO()
                    box.save(buffer, "WEBP", quality=86, method=4)
                    data = buffer.getvalue()
                file.write(data)
                pictures.append((style, i, offset, len(data)))
                offset += len(data)
    return pictures, small


def main_color(rgba):
    """(mode, hue in degrees, color word) of a picture with one main color; mode 1 turns hues, mode 2 tints a pale picture."""
    pixels = rgba.reshape(-1, 4)
    pixels = pixels[pixels[:, 3] > 0.8][:, :3]
    if len(pixels) < 200:
        return None
    hsv = np.array([colorsys.rgb_to_hsv(*p) for p in pixels[:: max(1, len(pixels) // 500)]])
    hue, sat, val = hsv[:, 0] * 360, hsv[:, 1], hsv[:, 2]
    if np.mean((sat < 0.22) & (val > 0.6)) > 0.62:
        return 2, 0.0, "white"
    vivid = (sat > 0.3) & (val > 0.22)
    if vivid.mean() < 0.5:
        return None
    histogram = np.histogram(hue[vivid], 36, (0, 360), weights=sat[vivid])[0]
    smooth = sum(np.roll(histogram, k) for k in (-2, -1, 0, 1, 2))
    center = smooth.argmax() * 10 + 5
    distance = (hue - center + 180) % 360 - 180
    near = vivid & (abs(distance) < 40)
    if near.mean() < 0.5:
        return None
    center = (center + np.average(distance[near], weights=sat[near])) % 360
    value, chroma = val[near].mean(), sat[near].mean()
    word = next(w for limit, w in [(14, "red"), (36, "orange"), (68, "yellow"), (165, "green"), (250, "blue"), (300, "purple"), (348, "pink"), (361, "red")] if center < limit)
    if word in ("orange", "red", "yellow") and value < 0.72 and center > 8:
        word = "brown"
    if word == "red" and chroma < 0.45:
        word = "pink"
    return 1, float(center), word


class Set:
    """Scenes and captions as they are collected."""

    def __init__(self):
        self.layers, self.place, self.background, self.kind, self.weight, self.captions = [], [], [], [], [], []

    def add(self, kind, layers, captions, weight, background=0):
        """layers: (picture, color or -1, flip, scale, cx, cy), bottom first, at most three."""
        layers = layers + [(-1, -1, 0, 1.0, 0.5, 0.5)] * (3 - len(layers))
        self.layers.append([layer[:3] for layer in layers])
        self.place.append([layer[3:] for layer in layers])
        self.background.append(background)
        self.kind.append(kind)
        self.weight.append(weight)
        self.captions.append(captions)


class Captions:
    def __init__(self, emoji):
        self.emoji = emoji
        self.seen = Counter(k for e in emoji for k in {*e["keywords"], *e["aliases"], e["name"]})

    def name(self, e):
        draw = rng.random()
        if e["aliases"] and draw < 0.42:
            return rng.choice(e["aliases"])
        rare = [k for k in e["keywords"] if self.seen[k] <= 3]
        return rng.choice(rare) if rare and draw > 0.92 else e["name"]

    def noun(self, e):
        """A name without color words, for recoloring and pasting."""
        names = [n for n in [e["name"], e["name"], *e["aliases"]] if len(n.split()) <= 4]
        return COLOR_WORD.sub("", rng.choice(names or [e["name"]])).strip() or e["name"]

    def dress(self, text, style, background=0, say_style=0.2):
        if rng.random() < 0.25:
            text = article(text)
        if style != "3d" or rng.random() < say_style:
            text = rng.choice(STYLES[style]).format(text)
        if background or rng.random() < 0.06:
            text += rng.choice([" on {a} background", " on {a} background", ", {0} background", " on {0}", " in front of {a} background"]).format(backgrounds[background], a=article(backgrounds[background]))
        return text

    def base(self, e, style, color, n, background=0):
        out = []
        for _ in range(n):
            text, draw = self.name(e), rng.random()
            if color and draw < 0.14 and not COLOR_WORD.search(text):
                text = f"{color} {text}"
            elif e["keywords"] and draw > 0.9:
                text = ", ".join([text, *rng.sample(e["keywords"], min(len(e["keywords"]), rng.randint(1, 3)))])
            elif 0.86 < draw < 0.9:
                text = rng.choice(["{} emoji", "picture of {}", "cute {}", "emoji of {}", "icon of {}"]).format(text)
            out.append(self.dress(text, style, background))
        return out


def jitter(picture, name, color=-1):
    scale = rng.uniform(0.78, 1.0)
    slack = (1 - scale) / 2
    flip = int(rng.random() < 0.5 and not ONE_WAY.search(name))
    return picture, color, flip, scale, 0.5 + rng.uniform(-slack, slack), 0.5 + rng.uniform(-slack, slack)


def add_singles(data, captions, emoji, pictures, held, colors_of):
    whole = (0, 1.0, 0.5, 0.5)
    for p, (style, i, _, _) in enumerate(pictures):
        e = emoji[i]
        if (style, i) in held:
            continue
        weight, color = e["weight"], colors_of.get(i)
        word = color[2] if color else None
        if style != "3d":
            data.add(style, [(p, -1, *whole)], captions.base(e, style, word, 12), weight * 2)
            for b in rng.sample(range(len(backgrounds)), 2):
                data.add(style, [jitter(p, e["name"])], captions.base(e, style, word, 5, b), weight * 0.5, b)
            continue
        data.add("base", [(p, -1, *whole)], captions.base(e, style, word, 28), weight * 3)
        for _ in range(3):
            data.add("base", [jitter(p, e["name"])], captions.base(e, style, word, 10), weight)
        for b in rng.sample(range(1, len(backgrounds)), 5):
            layer = (p, -1, *whole) if rng.random() < 0.6 else jitter(p, e["name"])
            data.add("background", [layer], captions.base(e, style, word, 5, b), weight, b)
        if not color or e["group"] not in (*THINGS, "Smileys & Emotion", "Symbols"):
            continue
        for c, target in enumerate(colors):
            if target == word or (color[0] == 2 and target in ("white", "gray")):
                continue
            for b in [0, *([rng.randrange(1, len(backgrounds))] if rng.random() < BACKGROUND_COLORS else [])]:
                layer = (p, c, *whole) if rng.random() < 0.7 else jitter(p, e["name"], c)
                texts = [captions.dress(f"{target} {captions.noun(e)}", "3d", b) for _ in range(5)]
                data.add("color", [layer], texts, weight * (0.4 if e["group"] in ("Smileys & Emotion", "Symbols") else 1.0), b)


def add_scenes(data, captions, emoji, pictures, held, colors_of, unseen):
    """Two things side by side, things worn, several of one thing."""
    by_style = defaultdict(list)
    for p, (style, i, _, _) in enumerate(pictures):
        if (style, i) not in held and emoji[i]["group"] in THINGS:
            by_style[style].append((p, emoji[i]))
    pairs = set()
    for k in range(N_PAIRS):
        style = "3d" if k % 5 else "flat"
        (pa, a), (pb, b) = rng.choices(by_style[style], [e["weight"] for _, e in by_style[style]], k=2)
        if f"{article(a['name'])} and {article(b['name'])}" in unseen:
            continue
        pairs.add(f"{a['name']}|{b['name']}")
        ca, cb = (rng.randrange(len(colors)) if rng.random() < 0.15 and style == "3d" and colors_of.get(emoji.index(e)) else -1 for e in (a, b))
        bg = 0 if rng.random() < 0.75 else rng.randrange(1, len(backgrounds))
        scale, y = rng.uniform(0.46, 0.52), rng.uniform(0.45, 0.55)
        layers = [(pa, ca, 0, scale, 0.26, y), (pb, cb, 0, scale, 0.74, y)]
        texts = []
        for _ in range(4):
            left, right = ((f"{colors[c]} " if c >= 0 else "") + captions.noun(e) for e, c in ((a, ca), (b, cb)))
            left, right = (article(left), article(right)) if rng.random() < 0.7 else (left, right)
            text = rng.choice(["{} and {}", "{} and {}", "{} and {}", "{} next to {}", "{} beside {}", "{} on the left and {} on the right"]).format(left, right)
            if style != "3d":
                text = rng.choice(["flat {}", "{}, flat", "{} in flat style"]).format(text)
            texts.append(text + (f" on {article(backgrounds[bg])} background" if bg else ""))
        data.add("pair", layers, texts, 1.0, bg)
    picture_of = {emoji[i]["name"]: p for p, (style, i, _, _) in enumerate(pictures) if style == "3d" and (style, i) not in held}
    by_name = {e["name"]: e for e in emoji}
    for face, (eyes, top, width) in ((clean(k), v) for k, v in FACES.items()):
        if face not in picture_of:
            continue
        for thing, (phrases, place, size) in WEAR.items():
            for c, b in [(-1, 0), (-1, 0), (-1, 0), *((rng.randrange(len(colors)), 0) for _ in range(4)), *((-1, rng.randrange(1, len(backgrounds))) for _ in range(3))]:
                if c >= 0 and not colors_of.get(next(i for i, e in enumerate(emoji) if e["name"] == face)):
                    continue
                scale = width * size * rng.uniform(0.95, 1.05)
                host, y = (1.0, 0.5, 0.5), eyes
                if place == "top":  # the host shrinks and sinks to make room; the thing's own picture fills its frame
                    host = (0.78, 0.5, 0.60)
                    scale *= 0.78
                    y = host[2] + (top - 0.5) * host[0] - scale * 0.27
                text = lambda: captions.dress((f"{colors[c]} " if c >= 0 else "") + captions.noun(by_name[face]) + " " + rng.choice(phrases), "3d", b)
                data.add("wear", [(picture_of[face], c, 0, *host), (picture_of[thing], -1, 0, scale, 0.5, y)], [text() for _ in range(8)],
                         (3.0 if face == "sun with face" else 1.0), b)
    spots = {2: [(0.5, 0.26, 0.5), (0.5, 0.74, 0.5)], 3: [(0.46, 0.27, 0.7), (0.46, 0.73, 0.7), (0.46, 0.5, 0.27)]}
    for p, e in by_style["3d"]:
        for n, words in ((2, ["two", "two", "2", "a pair of"]), (3, ["three", "three", "3"])):
            bg = 0 if rng.random() < 0.8 else rng.randrange(1, len(backgrounds))
            texts = [f"{rng.choice(words)} {plural(captions.noun(e))}" + (f" on {article(backgrounds[bg])} background" if bg else "") for _ in range(3)]
            data.add("count", [(p, -1, 0, s, x, y) for s, x, y in spots[n]], texts, e["weight"], bg)
    return pairs


def hold_out(emoji, pictures):
    """Names whose picture in one style is kept out of training while the other styles stay."""
    have = {(s, i) for s, i, _, _ in pictures}
    used = {clean(w) for w in [*ALIASES, *FACES, *WEAR, *PROMPTS]}
    free = [i for i, e in enumerate(emoji) if e["group"] in THINGS and e["name"] not in used and not any(a in PROMPTS for a in e["aliases"])
            and all((s, i) in have for s in STYLES)]  # fmt: skip
    rng.shuffle(free)
    return {("3d", i) for i in free[:60]} | {("flat", i) for i in free[60:120]} | {("noto", i) for i in free[120:140]}


def main(npm, out, earlier=None):
    out.mkdir(parents=True, exist_ok=True)
    emoji = read_emoji(npm)
    pictures, small = pack_pictures(npm, emoji, out)
    for e in emoji:
        many = re.search(r"^(man|woman|men|women|person) ", e["name"])
        e["weight"] = GROUP_WEIGHT[e["group"]] * (0.6 if many else 1.0) * (1.4 if clean(e["name"]) in {clean(a) for a in ALIASES} else 1.0)
    held = hold_out(emoji, pictures)
    colors_of = {pictures[p][1]: c for p, rgba in small.items() if (c := main_color(rgba))}
    captions, data = Captions(emoji), Set()
    add_singles(data, captions, emoji, pictures, held, colors_of)
    unseen = json.loads((earlier / "set.json").read_text())["unseen_pairs"] if earlier else []
    pairs = add_scenes(data, captions, emoji, pictures, held, colors_of, unseen)
    things = [e for i, e in enumerate(emoji) if e["group"] in THINGS and ("3d", i) not in held]
    while len(unseen) < 60:
        a, b = rng.choices(things, [e["weight"] for e in things], k=2)
        if f"{a['name']}|{b['name']}" not in pairs and a is not b:
            unseen.append(f"{article(a['name'])} and {article(b['name'])}")

    counts = Counter(w for group in data.captions for text in group for w in tokenizer.split(text))
    counts.update({w: 3 for e in emoji for k in e["keywords"] for w in tokenizer.split(k)})
    if earlier:
        for name in ("vocab.json", "merges.txt"):
            (out / name).write_bytes((earlier / name).read_bytes())
    else:
        tokenizer.save(out, *tokenizer.train({w: int(c**0.5) + 1 for w, c in counts.items()}, N_VOCAB))
    encode = tokenizer.Tokenizer(out).padded
    table = {text: None for group in data.captions for text in group}
    index = {text: n for n, text in enumerate(table)}
    kinds = list(KIND_SHARE)
    kind = np.array([kinds.index(k) for k in data.kind])
    weight = np.array(data.weight, np.float32)
    for k, share in enumerate(KIND_SHARE.values()):
        weight[kind == k] *= share / weight[kind == k].sum()
    first = np.cumsum([0, *(len(g) for g in data.captions)])
    np.savez_compressed(
        out / "set.npz", layers=np.array(data.layers, np.int16), place=np.array(data.place, np.float32), background=np.array(data.background, np.uint8),
        kind=kind.astype(np.uint8), weight=weight, caption_first=first.astype(np.int32), caption=np.array([index[t] for g in data.captions for t in g], np.int32),
        tokens=np.array([encode(t) for t in table], np.uint16), empty=np.array(encode(""), np.uint16),
        pictures=np.array([(list(STYLES).index(s), i, o, n) for s, i, o, n in pictures], np.int64),
        recolor=np.array([colors_of.get(i, (0, 0.0, ""))[:2] if s == "3d" else (0, 0) for s, i, _, _ in pictures], np.float32),
    )  # fmt: skip
    held_names = {s: [emoji[i]["name"] for t, i in sorted(held) if t == s] for s in STYLES}
    meta = {"emoji": [{k: e[k] for k in ("key", "name", "group")} for e in emoji], "held": held_names, "unseen_pairs": unseen,
            "kinds": kinds, "main_color": {emoji[i]["name"]: c[2] for i, c in colors_of.items()}}  # fmt: skip
    (out / "set.json").write_text(json.dumps(meta))
    print(f"emoji {len(emoji)}, pictures {len(pictures)}, recolorable {len(colors_of)}, scenes {len(kind)}, captions {len(table)}")
    print({k: int((kind == n).sum()) for n, k in enumerate(kinds)}, {f.name: f.stat().st_size for f in out.iterdir()})
    longest = max(len(tokenizer.Tokenizer(out).encode(t)) for t in rng.sample(list(table), 5000))
    print("longest caption of 5000:", longest, "tokens;", rng.sample(list(table), 25))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
