"""Reads the built set and renders its scenes as batches of RGB pictures [b, 3, 256, 256] in 0..1, on any device."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from words import BACKGROUNDS, COLORS


def hue_of(rgb):
    high, low = rgb.amax(1), rgb.amin(1)
    span = (high - low).clamp_min(1e-6)
    r, g, b = rgb.unbind(1)
    hue = torch.where(high == r, (g - b) / span % 6, torch.where(high == g, (b - r) / span + 2, (r - g) / span + 4))
    return hue * 60, span / high.clamp_min(1e-6), high


def from_hsv(hue, sat, val):
    k = (torch.tensor([5.0, 3.0, 1.0], device=hue.device)[None, :, None, None] + hue[:, None] / 60) % 6
    return val[:, None] * (1 - sat[:, None] * torch.minimum(k, 4 - k).clamp(0, 1))


class Scenes:
    def __init__(self, folder, device, limit=None):
        folder = Path(folder)
        self.meta = json.loads((folder / "set.json").read_text())
        self.data = {k: torch.from_numpy(v.astype(np.int64) if v.dtype.kind in "iu" else v) for k, v in np.load(folder / "set.npz").items()}
        self.device = device
        self.n = min(limit or 1 << 30, len(self.data["kind"]))
        self.load_pictures(folder / "images.bin")
        self.table = torch.tensor([BACKGROUNDS[b] for b in BACKGROUNDS], device=device) / 255
        # One row per color: hue, saturation factor, value factor, value floor, keep hue (1) or drop
        # color (0).
        rows = [(h or 0, s, v, floor, float(h is not None)) for h, s, v, floor in COLORS.values()]
        self.targets = torch.tensor(rows, device=device)
        self.recolor = self.data["recolor"].to(device)

    def load_pictures(self, path):
        blob, rows = path.read_bytes(), self.data["pictures"].tolist()

        def decode(row):
            image = Image.open(io.BytesIO(blob[row[2] : row[2] + row[3]])).convert("RGBA")
            return np.asarray(image if image.size == (256, 256) else image.resize((256, 256), Image.LANCZOS))

        with ThreadPoolExecutor(16) as pool:
            pictures = np.stack(list(pool.map(decode, rows)))
        self.pictures = torch.from_numpy(pictures).permute(0, 3, 1, 2).contiguous().to(self.device)  # [n, 4, 256, 256] u8

    def paint(self, rgb, picture, color):
        """Turns the main hue of each picture to its target color, or tints a pale picture."""
        hue, sat, val = hue_of(rgb)
        mode, center = (self.recolor[picture, k][:, None, None] for k in (0, 1))
        t_hue, t_sat, t_val, floor, keep = (self.targets[color.clamp_min(0), k][:, None, None] for k in range(5))
        distance = ((hue - center + 180) % 360 - 180).abs()
        near = ((65 - distance) / 25).clamp(0, 1) * ((sat - 0.1) / 0.15).clamp(0, 1)
        pale = (1 - (sat - 0.15) / 0.2).clamp(0, 1) * (val * 2).clamp(0, 1)
        mask = torch.where(mode == 2, pale, near)
        new_sat = torch.where(mode == 2, 0.75 * t_sat * keep, sat * t_sat).clamp(0, 1)
        shift = torch.where(mode == 2, torch.zeros_like(hue), (hue - center + 180) % 360 - 180) * 0.5
        new_val = (floor + (1 - floor) * val) * t_val
        painted = from_hsv((t_hue + shift) % 360, new_sat, new_val)
        mask = (mask * (color >= 0)[:, None, None])[:, None]
        return rgb * (1 - mask) + painted * mask

    def layer(self, layers, place):
        picture, color, flip = layers.unbind(1)
        scale, cx, cy = place.unbind(1)
        rgba = self.pictures[picture.clamp_min(0)].float() / 255
        rgb, alpha = self.paint(rgba[:, :3], picture.clamp_min(0), color), rgba[:, 3:]
        sign = 1 - 2.0 * flip
        theta = torch.zeros(len(scale), 2, 3, device=scale.device)
        theta[:, 0, 0], theta[:, 0, 2] = sign / scale, -sign * (2 * cx - 1) / scale
        theta[:, 1, 1], theta[:, 1, 2] = 1 / scale, -(2 * cy - 1) / scale
        grid = F.affine_grid(theta, rgba.shape, align_corners=False)
        out = F.grid_sample(torch.cat([rgb * alpha, alpha], 1), grid, align_corners=False)
        return out * (picture >= 0)[:, None, None, None]

    @torch.no_grad()
    def render(self, index):
        """Scenes by index (a CPU tensor) -> [b, 3, 256, 256]."""
        layers, place = (self.data[k][index].to(self.device) for k in ("layers", "place"))
        image = self.table[self.data["background"][index].to(self.device)][:, :, None, None].expand(-1, -1, 256, 256)
        for k in range(int((layers[:, :, 0] >= 0).any(0).sum())):
            over = self.layer(layers[:, k], place[:, k])
            image = image * (1 - over[:, 3:]) + over[:, :3]
        return image.clamp(0, 1)


def save_sheet(images, path, columns=8, size=128):
    """Writes [n, 3, h, w] in 0..1 as one contact sheet."""
    small = F.interpolate(images.float().cpu(), size=(size, size), mode="area")
    rows = -(-len(small) // columns)
    small = torch.cat([small, torch.ones(rows * columns - len(small), 3, size, size)])
    sheet = small.view(rows, columns, 3, size, size).permute(0, 3, 1, 4, 2).reshape(rows * size, columns * size, 3)
    Image.fromarray((sheet * 255).round().byte().numpy()).save(path)
