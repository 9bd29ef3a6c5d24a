"""Judges a trained model by numbers on 200 prompts that were not in the training set (see MODEL_CARD.md).

    python evaluate.py nino-emoji.safetensors SET OUT

- retrieval: a small image network is trained to match latents with captions through the model's own frozen text encoder;
  the score is how often it picks the prompt among 50, and among all names of the style. Real held-out pictures give the
  ceiling; the judge has been shown them.
- reciting: distance to the nearest training latent, beside the same for real held-out pictures; and for held-out names,
  how often the nearest real picture of that style is the one the model never saw.
- Frechet distance of pooled VAE features between generated and real pictures, beside training against held-out pictures.
"""

import argparse
import json
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

import sample
from export import load
from scenes import Scenes, save_sheet
from words import PROMPTS, STYLES


class Judge(nn.Module):
    def __init__(self, c=96, d=256):
        super().__init__()
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, 2, 1), nn.GroupNorm(8, o), nn.SiLU(), nn.Conv2d(o, o, 3, 1, 1), nn.GroupNorm(8, o), nn.SiLU())
        self.image = nn.Sequential(block(4, c), block(c, 2 * c), block(2 * c, 4 * c), nn.Flatten(), nn.Linear(4 * c * 16, d))
        self.text = nn.Linear(d, d)
        self.scale = nn.Parameter(torch.tensor(2.5))

    def forward(self, x, text):
        return self.scale.exp() * F.normalize(self.image(x), dim=-1) @ F.normalize(self.text(text), dim=-1).mT


@torch.no_grad()
def text_features(model, tokens):
    """The text model's state at the first end token, which has seen the whole caption."""
    out, end = [], tokens.max()
    for part in tokens.split(2048):
        states = model.text_model(part)
        out.append(states[torch.arange(len(part), device=part.device), (part == end).int().argmax(1)])
    return torch.cat(out)


def train_judge(model, batches, real, real_features, device, steps, batch):
    """Latents of training scenes, mixed with the held-out pictures (real), so that the judge knows what they look like."""
    judge = Judge().to(device)
    optimizer = torch.optim.AdamW(judge.parameters(), 1e-3, weight_decay=0.05)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 1e-3 * min(1, step / 100) * (1 - step / steps)
        x, tokens = batches.draw(batch)
        pick = torch.randint(len(real), (batch // 8,), device=device)
        x, text = torch.cat([x, real[pick]]), torch.cat([text_features(model, tokens), real_features[pick]])
        x = torch.roll(x, tuple(int(k) for k in torch.randint(-3, 4, (2,))), (2, 3)) + 0.15 * torch.randn_like(x)
        logits = judge(x, text)
        same = (text[:, None] - text[None]).abs().amax(-1) < 1e-4  # equal captions are not each other's negatives
        logits = logits.masked_fill(same & ~torch.eye(len(x), dtype=torch.bool, device=device), -1e4)
        target = torch.arange(len(x), device=device)
        loss = F.cross_entropy(logits, target) + F.cross_entropy(logits.mT, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return judge.eval()


@torch.no_grad()
def retrieval(judge, latents, features, ways=50):
    """Share of latents whose own caption scores highest among `ways` captions drawn from the same prompts."""
    generator, right = torch.Generator().manual_seed(0), 0
    scores = judge(latents, features)
    for i in range(len(latents)):
        others = torch.randperm(len(latents), generator=generator)
        others = others[others != i][: ways - 1].to(scores.device)
        right += bool((scores[i, i] > scores[i, others]).all())
    return right / len(latents)


def nearest(x, pool):
    """(distance, index) of the nearest pool latent for each x, as mean squared difference."""
    best = [torch.cdist(x.flatten(1).float(), part.flatten(1).float()).square() / x[0].numel() for part in pool.split(4096)]
    return torch.cat(best, 1).min(1)


def frechet(a, b):
    mean = (a.mean(0) - b.mean(0)).square().sum().cpu()
    ca, cb = (torch.cov(x.T.double().cpu()) for x in (a, b))
    root = torch.linalg.eigvals(ca @ cb).real.clamp_min(0).sqrt().sum()
    return (mean + ca.trace() + cb.trace() - 2 * root).item()


@torch.no_grad()
def vae_features(encoder, images):
    h = torch.cat([encoder[:14](part) for part in images.split(32)])
    return torch.cat([h.mean((2, 3)), h.std((2, 3))], 1)[:, ::2]  # 64 numbers: few enough for some 200 pictures


@torch.no_grad()
def draw_pictures(scenes, index):
    """Plain pictures (no scene) on white."""
    out = []
    for part in index.split(64):
        layers = torch.stack([part, torch.full_like(part, -1), torch.zeros_like(part)], 1).to(scenes.device)
        place = torch.tensor([[1.0, 0.5, 0.5]], device=scenes.device).expand(len(part), 3)
        over = scenes.layer(layers, place)
        out.append((1 - over[:, 3:]) + over[:, :3])
    return torch.cat(out).clamp(0, 1)


def evaluate(model, encoder, decoder, scenes, batches, source, out, device, cfg=3.0, judge_steps=1000, judge_batch=512):
    """Returns the figures; writes the sheet of held-out names (real above generated) to OUT."""
    meta, start = scenes.meta, time.time()
    names = {e["name"]: i for i, e in enumerate(meta["emoji"])}
    style_of, emoji_of = scenes.data["pictures"][:, 0], scenes.data["pictures"][:, 1]
    held = [(s, n) for s in STYLES for n in meta["held"][s]]
    picture = torch.tensor([int(((style_of == list(STYLES).index(s)) & (emoji_of == names[n])).nonzero()[0, 0]) for s, n in held])
    prompts = [n if s == "3d" else f"{s} {n}" for s, n in held] + meta["unseen_pairs"]
    tokens = sample.tokens(source, prompts)
    latents = torch.cat([sample.sample(model, (t, tokens[1]), 20, cfg, 1000 + i, device) for i, t in enumerate(tokens[0].split(64))])
    images = torch.cat([decoder(z).clamp(0, 1) for z in latents.split(32)])
    real_images = draw_pictures(scenes, picture)
    with torch.no_grad():
        real = torch.cat([encoder(x) for x in real_images.split(32)])
    features = text_features(model, tokens[0].to(device))
    n_held = len(held)
    judge = train_judge(model, batches, real, features[:n_held], device, judge_steps, judge_batch)
    figures = {
        "retrieval_held_out": retrieval(judge, latents[:n_held], features[:n_held]),
        "retrieval_held_out_3d": retrieval(judge, latents[: len(meta["held"]["3d"])], features[: len(meta["held"]["3d"])]),
        "retrieval_pairs": retrieval(judge, latents[n_held:], features[n_held:]),
        "retrieval_real_held_out": retrieval(judge, real, features[:n_held]),
    }
    single = (scenes.data["kind"][: len(batches.latents)] != scenes.meta["kinds"].index("pair")).to(device)
    pool = batches.latents[single]
    figures["nearest_train_generated"] = nearest(latents[:n_held], pool)[0].median().item()
    figures["nearest_train_real_held_out"] = nearest(real, pool)[0].median().item()
    own, first = [], []
    for k, s in enumerate(STYLES):
        rows = [i for i, (t, _) in enumerate(held) if t == s]
        all_pictures = (style_of == k).nonzero()[:, 0]
        with torch.no_grad():
            everything = torch.cat([encoder(draw_pictures(scenes, p)) for p in all_pictures.split(64)])
        closest = nearest(latents[rows], everything)[1].cpu()
        own += (all_pictures[closest] == picture[rows]).tolist()
        captions = [meta["emoji"][i]["name"] if s == "3d" else f"{s} {meta['emoji'][i]['name']}" for i in emoji_of[all_pictures].tolist()]
        with torch.no_grad():
            scores = judge(latents[rows], text_features(model, sample.tokens(source, captions)[0].to(device)))
        first += (all_pictures[scores.argmax(1).cpu()] == picture[rows]).tolist()
    figures["nearest_real_is_the_unseen_one"] = sum(own) / len(own)
    figures["judge_first_of_all_names"] = sum(first) / len(first)
    train_index = torch.tensor([p for p in range(len(style_of)) if p not in set(picture.tolist())])
    train_index = train_index[torch.randperm(len(train_index), generator=torch.Generator().manual_seed(0))[:400]]
    real_train = vae_features(encoder, draw_pictures(scenes, train_index))
    real_held = vae_features(encoder, real_images)
    figures["frechet_generated_held_out"] = frechet(vae_features(encoder, images[:n_held]), real_held)
    figures["frechet_train_held_out"] = frechet(real_train[:n_held], real_held)
    figures["seconds"] = time.time() - start
    sheet = torch.cat([torch.cat([real_images[o : o + 16], images[o : o + 16]]) for o in (0, 16, 60, 76, 120)])
    save_sheet(torch.cat([sheet, images[n_held : n_held + 32]]), out / "sheet-held-out.png", 16, 96)
    return figures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("set", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cfg", type=float, default=3.0)
    parser.add_argument("--limit", type=int, help="use only the first scenes (tests)")
    parser.add_argument("--judge-steps", type=int, default=1000)
    args = parser.parse_args()
    from train import Batches, encode_scenes

    device = "cuda" if torch.cuda.is_available() else "cpu"
    args.out.mkdir(parents=True, exist_ok=True)
    model, encoder, decoder = (m.to(device) for m in load(args.model))
    scenes = Scenes(args.set, device, args.limit)
    batches = Batches(scenes, encode_scenes(scenes, encoder, device)[0], device)
    figures = evaluate(model, encoder, decoder, scenes, batches, args.set, args.out, device, args.cfg, args.judge_steps, 512 if device == "cuda" else 64)
    print(json.dumps(figures, indent=1))
    (args.out / "figures.json").write_text(json.dumps(figures))
    z = torch.cat([sample.sample(model, sample.tokens(args.set, PROMPTS[i : i + 16]), 20, args.cfg, i, device) for i in range(0, 64, 16)])
    save_sheet(decoder(z).clamp(0, 1), args.out / "sheet.png")


if __name__ == "__main__":
    main()
