"""Trains nino-emoji on one GPU in resumable parts.

    python train.py SET OUT --vae 110 --unet 400      the autoencoder, then the denoiser, for so many seconds each
    python train.py SET OUT --resume DIR --unet 150   goes on with the denoiser from the files an earlier part wrote

OUT receives vae.safetensors, denoiser-{0,1,2}.safetensors (averaged weights, f16), log.json and contact sheets.
`pack` below halves the denoiser's files for the way to the GPU machine (int8 blocks), which is enough to go on from.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import sample
from model import CONFIG, Denoiser, taesd_decoder, taesd_encoder
from optim import Muon
from scenes import Scenes, save_sheet
from words import PROMPTS

START = time.time()


def say(*parts):
    print(f"[{time.time() - START:6.1f}]", *parts, flush=True)


def compiled(module, *example):
    """torch.compile of a module that returns its loss (first), or the module itself where compiling fails."""
    if not torch.cuda.is_available():
        return module
    try:
        fast = torch.compile(module)
        out = fast(*example)
        (out[0] if isinstance(out, tuple) else out).backward()
        torch.cuda.synchronize()
    except Exception as error:  # GPU time is dear: a slow run is better than none
        say("compile failed, eager instead:", repr(error)[:400])
        fast = module
    for p in module.parameters():
        p.grad = None
    return fast


def restart(optimizer, ema, begin):
    with torch.no_grad():
        for p, e, b in zip(optimizer.params, ema, begin):
            p.copy_(b)
            e.copy_(b)
    optimizer.reset()


def edges(x):
    return x[:, :, 1:] - x[:, :, :-1], x[:, :, :, 1:] - x[:, :, :, :-1]


class Autoencoder(nn.Module):
    """TAESD with whitened, slightly noisy latents in training; the whitening folds into the encoder's last layer."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = taesd_encoder(), taesd_decoder()
        self.norm = nn.BatchNorm2d(4, affine=False, momentum=0.01, eps=1e-6)

    def forward(self, x):
        """Loss of pictures [b, 3, h, w]: reconstruction, and that a halved latent decodes to the halved picture."""
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            z = self.norm(self.encoder(x).float())
            y = self.decoder(z + 0.06 * torch.randn_like(z)).float()
            half = self.decoder(F.avg_pool2d(z, 2)).float()
        loss = F.l1_loss(y, x) + 0.25 * F.l1_loss(half, F.avg_pool2d(x, 2))
        for k in (1, 2, 4):
            a, b = (F.avg_pool2d(y, k), F.avg_pool2d(x, k)) if k > 1 else (y, x)
            loss = loss + sum(F.l1_loss(p, q) for p, q in zip(edges(a), edges(b)))
        return loss, F.mse_loss(y.detach().clamp(0, 1), x)

    def fold(self):
        last, scale = self.encoder[14], (self.norm.running_var + self.norm.eps).rsqrt()
        with torch.no_grad():
            last.weight.mul_(scale[:, None, None, None])
            last.bias.copy_((last.bias - self.norm.running_mean) * scale)


def train_vae(scenes, seconds, out, device, batch, crop):
    n = min(scenes.n, 12000 if device == "cuda" else 64)
    pick = torch.multinomial(scenes.data["weight"][: scenes.n].sqrt(), n)
    pictures = torch.cat([(scenes.render(i) * 255).round().byte() for i in pick.split(256)])
    model = Autoencoder().to(device).to(memory_format=torch.channels_last).train()
    optimizer = Muon(model.named_parameters(), plain=("encoder.0.", "encoder.14.", "decoder.1.", "decoder.19."))
    ema = [p.detach().clone() for p in optimizer.params]
    peak, begin = 3e-3, [p.detach().clone() for p in optimizer.params]
    x = pictures[:batch, :, :crop, :crop].float() / 255
    step = compiled(model, x.contiguous(memory_format=torch.channels_last))
    say(f"vae: {n} pictures, compiled")
    start, it = time.time(), 0
    while (elapsed := time.time() - start) < seconds:
        lr = peak * min(1, (it + 1) / 200) * max(0.01, 1 - elapsed / seconds)
        top, left = (8 * int(k) for k in torch.randint(0, (256 - crop) // 8 + 1, (2,)))
        x = pictures[torch.randint(n, (batch,), device=device)][:, :, top : top + crop, left : left + crop].float() / 255
        x = x.flip(3) if it % 2 else x
        loss, mse = step(x.contiguous(memory_format=torch.channels_last))
        loss.backward()
        optimizer.step(lr)
        it += 1
        torch._foreach_lerp_(ema, optimizer.params, max(0.005, 1 / (it + 1)))
        if it % 500 == 0 or device == "cpu":
            psnr = -10 * math.log10(mse.item() + 1e-9)
            say(f"vae {it} loss {loss.item():.4f} psnr {psnr:.2f}")
            if not psnr > 10 and device == "cuda":
                peak *= 0.3
                say("vae diverged: again from the start at", peak)
                restart(optimizer, ema, begin)
    for p, e in zip(optimizer.params, ema):
        p.data.copy_(e)
    model.fold()
    encoder, decoder = (m.eval().requires_grad_(False) for m in (model.encoder, model.decoder))
    with torch.no_grad():
        x = scenes.render(pick[:64])
        y = decoder(encoder(x)).clamp(0, 1)
        psnr = (-10 * (y - x).square().mean((1, 2, 3)).log10()).mean().item()
    save_sheet(torch.cat([x[:16], y[:16]]), out / "sheet-vae.png", 16)
    say(f"vae done: {it} iterations, {psnr:.2f} dB on whole pictures")
    weights = {f"encoder.{k}": v for k, v in encoder.state_dict().items()} | {f"decoder.{k}": v for k, v in decoder.state_dict().items()}
    save_file({k: v.half().contiguous().cpu() for k, v in weights.items()}, out / "vae.safetensors")
    return {"vae_iterations": it, "vae_psnr": psnr}


def load_vae(folder, device):
    weights = {k: v.float() for k, v in load_file(folder / "vae.safetensors").items()}
    encoder, decoder = taesd_encoder(), taesd_decoder()
    encoder.load_state_dict({k[8:]: v for k, v in weights.items() if k.startswith("encoder.")})
    decoder.load_state_dict({k[8:]: v for k, v in weights.items() if k.startswith("decoder.")})
    return tuple(m.to(device).to(memory_format=torch.channels_last).eval().requires_grad_(False) for m in (encoder, decoder))


@torch.no_grad()
def encode_scenes(scenes, encoder, device):
    latents = torch.empty(scenes.n, 4, 32, 32, device=device, dtype=torch.bfloat16)
    for i in torch.arange(scenes.n).split(256):
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            latents[i[0] : i[-1] + 1] = encoder(scenes.render(i).contiguous(memory_format=torch.channels_last))
    sums = latents.float()
    return latents, sums.mean((0, 2, 3)).tolist(), sums.std((0, 2, 3)).tolist()


class Batches:
    """Draws (latent, tokens) batches on the device, scenes by weight, captions evenly, a tenth of them empty."""

    def __init__(self, scenes, latents, device):
        self.latents = latents
        self.chance = scenes.data["weight"][: scenes.n].double().cumsum(0).to(device)
        self.first, self.caption, self.tokens, self.empty = (scenes.data[k].to(device) for k in ("caption_first", "caption", "tokens", "empty"))

    def draw(self, n):
        device = self.latents.device
        scene = torch.searchsorted(self.chance, torch.rand(n, device=device, dtype=torch.float64) * self.chance[-1]).clamp_max(len(self.chance) - 1)
        first, end = self.first[scene], self.first[scene + 1]
        caption = self.caption[first + (torch.rand(n, device=device) * (end - first)).long().clamp_max(end - first - 1)]
        tokens = torch.where((torch.rand(n, device=device) < 0.1)[:, None], self.empty, self.tokens[caption])
        return self.latents[scene].float(), tokens


class FlowLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, tokens, noise, t):
        w = t[:, None, None, None]
        noisy = ((1 - w) * x + w * noise).contiguous(memory_format=torch.channels_last)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            flow = self.model(noisy, t, tokens)
        return F.mse_loss(flow.float(), noise - x)


def draw_times(n, device):
    """Logit-normal with a little more weight on noise, where the prompt decides, and a uniform tenth."""
    t = torch.sigmoid(0.25 + 1.1 * torch.randn(n, device=device))
    return torch.where(torch.rand(n, device=device) < 0.1, torch.rand(n, device=device), t)


def save_denoiser(params, out):
    """Weights in f16, in three files of similar size below 16 MiB."""
    shards, sizes = [{}, {}, {}], [0, 0, 0]
    for name, p in sorted(params.items(), key=lambda item: -item[1].numel()):
        k = sizes.index(min(sizes))
        shards[k][name] = p.detach().to(torch.float16).contiguous().cpu()
        sizes[k] += p.numel()
    for k, shard in enumerate(shards):
        save_file(shard, out / f"denoiser-{k}.safetensors")


def read_denoiser(folder):
    weights = {}
    for path in sorted(folder.glob("denoiser-*.safetensors")):
        weights |= load_file(path)
    plain = {k: v.float() for k, v in weights.items() if not k.endswith((".q", ".scale"))}
    return plain | {k[:-2]: v.float() * weights[k[:-2] + ".scale"].float() for k, v in weights.items() if k.endswith(".q")}


def load_denoiser(folder, model):
    weights = read_denoiser(folder)
    model.load_state_dict({k: weights[k].reshape(p.shape) for k, p in model.state_dict().items()})


def pack(source, target):
    """Copies a part's weights with the matrices as int8 in blocks of 32."""
    target.mkdir(parents=True, exist_ok=True)
    out = {}
    for k, v in read_denoiser(source).items():
        if v.ndim < 2 or v.numel() % 32:
            out[k] = v.half()
            continue
        blocks = v.reshape(-1, 32)
        out[k + ".scale"] = (blocks.abs().amax(1, keepdim=True) / 127).clamp_min(1e-8).half()
        out[k + ".q"] = (blocks / out[k + ".scale"].float()).nan_to_num(0.0, 0.0, 0.0).round().clamp(-127, 127).to(torch.int8)
    save_file(out, target / "denoiser-q8.safetensors")
    (target / "vae.safetensors").write_bytes((source / "vae.safetensors").read_bytes())


def train_unet(args, scenes, latents, out, device):
    model = Denoiser().to(device)
    if args.resume:
        load_denoiser(args.resume, model)
    model = model.to(memory_format=torch.channels_last).train()
    names = {id(p): n for n, p in model.named_parameters()}
    plain = ("embedding", "input_blocks.0.0.", "diffusion_model.out.2.", "time_embed.0.")
    optimizer = Muon(model.named_parameters(), weight_decay=0.02, plain=plain)
    ema, begin = ([p.detach().clone() for p in optimizer.params] for _ in range(2))
    batches = Batches(scenes, latents, device)
    x, tokens = batches.draw(args.batch)
    loss_of = compiled(FlowLoss(model), x, tokens, torch.randn_like(x), draw_times(args.batch, device))
    save = lambda: save_denoiser({names[id(p)]: e for p, e in zip(optimizer.params, ema)}, out)
    if args.deadline:
        args.unet = args.deadline - (time.time() - START)
    say(f"unet: compiled, {len(optimizer.groups)} matrix shapes, {args.unet:.0f} s to go")
    start, it, log, total, saved = time.time(), 0, [], 0.0, time.time()
    while (elapsed := time.time() - start) < args.unet:
        lr = args.lr * min(1, (it + 1) / 300) * max(args.floor, 1 - elapsed / args.unet)
        x, tokens = batches.draw(args.batch)
        loss = loss_of(x, tokens, torch.randn_like(x), draw_times(args.batch, device))
        loss.backward()
        optimizer.step(lr)
        it += 1
        total = total + loss.detach()
        torch._foreach_lerp_(ema, optimizer.params, max(args.average, 1 / (it + 1)))
        if it % 250 == 0 or device == "cpu":
            every = 250 if device == "cuda" else 1
            log.append((round(time.time() - START, 1), it, (total / every).item()))
            total = 0.0
            say(f"unet {it} {it / (time.time() - start):.2f}/s loss {log[-1][2]:.4f} lr {lr:.5f}")
            if not log[-1][2] < 1.3 and device == "cuda":
                args.lr *= 0.4
                say("unet diverged: again from the start at", args.lr)
                restart(optimizer, ema, begin)
            if time.time() - saved > 120:
                save()
                saved = time.time()
    with torch.no_grad():
        for p, e in zip(optimizer.params, ema):
            p.copy_(e)
    save()
    say(f"unet done: {it} iterations of {args.batch}")
    return model.eval().requires_grad_(False), {"unet_iterations": it, "batch": args.batch, "loss": log}


def reweigh(scenes, shares):
    """Gives kinds of scenes other shares of the batches: {"pair": 0.14, ..}."""
    kind, weight = scenes.data["kind"], scenes.data["weight"]
    for name, share in shares.items():
        rows = kind == scenes.meta["kinds"].index(name)
        weight[rows] *= share / weight[rows].sum()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("set", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--vae", type=float, default=0.0)
    parser.add_argument("--unet", type=float, default=0.0)
    parser.add_argument("--deadline", type=float, help="end the denoiser's training so many seconds after the start instead")
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--vae-batch", type=int, default=96)
    parser.add_argument("--crop", type=int, default=128)
    parser.add_argument("--lr", type=float, default=2.5e-3)
    parser.add_argument("--floor", type=float, default=0.02, help="the last learning rate, as a fraction of the first")
    parser.add_argument("--average", type=float, default=0.002, help="weight of the newest step in the averaged weights")
    parser.add_argument("--shares", type=json.loads, default={}, help='shares of the kinds of scenes, as JSON: {"pair": 0.14}')
    parser.add_argument("--evaluate", action="store_true", help="also judge the result (evaluate.py)")
    parser.add_argument("--pack", type=Path, help="only pack the files in --resume into this folder")
    parser.add_argument("--limit", type=int, help="use only the first scenes (tests)")
    args = parser.parse_args()
    if args.pack:
        return pack(args.resume, args.pack)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(6)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    args.out.mkdir(parents=True, exist_ok=True)
    if args.resume and not (args.resume / "vae.safetensors").exists():
        say("nothing to resume in", args.resume)
        args.resume = None
    scenes = Scenes(args.set, device, args.limit)
    say("set:", scenes.n, "scenes,", len(scenes.pictures), "pictures, device", device)
    reweigh(scenes, args.shares)
    log = {"config": CONFIG, "torch": torch.__version__}
    if args.resume:
        (args.out / "vae.safetensors").write_bytes((args.resume / "vae.safetensors").read_bytes())
    else:
        log |= train_vae(scenes, args.vae, args.out, device, args.vae_batch, args.crop)
    encoder, decoder = load_vae(args.out, device)
    latents, log["latent_mean"], log["latent_std"] = encode_scenes(scenes, encoder, device)
    say("latents: mean", log["latent_mean"], "std", log["latent_std"])
    model, more = train_unet(args, scenes, latents, args.out, device)
    log |= more
    (args.out / "log.json").write_text(json.dumps(log))
    prompts, steps = (PROMPTS, 20) if device == "cuda" else (PROMPTS[:4], 2)
    tokens = sample.tokens(args.set, prompts)
    z = torch.cat([sample.sample(model, tokens, steps, cfg, seed=0, device=device) for cfg in (2.5, 4.0)])
    with torch.no_grad():
        save_sheet(torch.cat([decoder(part).clamp(0, 1) for part in z.split(64)]), args.out / "sheet.png")
    say("sheet written: guidance 2.5 above, 4 below")
    if args.evaluate:
        from evaluate import evaluate

        figures = evaluate(model, encoder, decoder, scenes, Batches(scenes, latents, device), args.set, args.out, device, **({} if device == "cuda" else {"judge_steps": 3, "judge_batch": 16}))
        say(json.dumps(figures))
        (args.out / "log.json").write_text(json.dumps(log | {"figures": figures}))


if __name__ == "__main__":
    main()
