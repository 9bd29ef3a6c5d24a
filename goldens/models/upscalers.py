"""Writes the goldens of upscalers, in the form of `make.py`.

    python goldens/models/upscalers.py [name ...]

The references are the networks of spandrel 0.4.2, which ComfyUI loads upscalers with. Dense
convolutions add 8 channels instead of 32, so that files are small.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import torch  # noqa: E402
from make import fill, last, noise, save  # noqa: E402
from spandrel.architectures.Compact import Compact  # noqa: E402
from spandrel.architectures.ESRGAN import ESRGAN  # noqa: E402

GROWTH, WIDTH = 8, 12

# The network asks for blocks with a growth of 32, which no argument of it changes.
blocks = sys.modules[ESRGAN.__module__].B
of_growth = blocks.RRDB
blocks.RRDB = lambda **given: of_growth(**(given | {"gc": GROWTH}))


def sequence_to_real(name, n_blocks, last_layer):
    """Names of Real-ESRGAN for those of ESRGAN's sequence."""
    name = re.sub(r"model\.1\.sub\.(\d+)\.RDB(\d)\.conv(\d)\.0", r"body.\1.rdb\2.conv\3", name)
    for layer, new in [
        ("model.0.", "conv_first."),
        (f"model.1.sub.{n_blocks}.", "conv_body."),
        (f"model.{last_layer}.", "conv_last."),
        (f"model.{last_layer - 2}.", "conv_hr."),
        ("model.3.", "conv_up1."),
        ("model.6.", "conv_up2."),
    ]:
        name = name.replace(layer, new) if name.startswith(layer) else name
    return name


def sequence_to_trunk(name, n_blocks, last_layer):
    """The names between: ESRGAN's second release."""
    name = sequence_to_real(name, n_blocks, last_layer)
    name = re.sub(r"body\.(\d+)\.rdb(\d)", r"RRDB_trunk.\1.RDB\2", name)
    for new, old in [("conv_body", "trunk_conv"), ("conv_up", "upconv"), ("conv_hr", "HRconv")]:
        name = name.replace(new, old)
    return name


def keep(name, *_):
    return name


def rrdb(name, seed, *, scale, size, rename=keep, n_blocks=2, unshuffle=None, plus=False):
    m = ESRGAN(in_nc=3 * (unshuffle or 1) ** 2, num_filters=WIDTH, num_blocks=n_blocks, scale=scale,
               shuffle_factor=unshuffle, plus=plus).double()  # fmt: skip
    fill(m, seed)
    at = {}

    def watch(path):
        def hook(_module, _inputs, out):
            at.setdefault(path, last(out.clone()))

        return hook

    m.model[0].register_forward_hook(watch("conv_first"))
    for i in range(n_blocks):
        m.model[1].sub[i].register_forward_hook(watch(f"body.{i}"))
    pixels = (noise(seed + 1, 1, 3, *size, scale=0.2) + 0.5).clamp(0, 1).float().double()
    with torch.no_grad():
        out = m(pixels)
    last_layer = max(int(k.split(".")[1]) for k in m.state_dict())
    weights = {rename(k, n_blocks, last_layer): v for k, v in m.state_dict().items()}
    tensors = {"golden.in.x": last(pixels), "golden.out.x": last(out)}
    save(name, weights, tensors | {f"golden.at.{k}": v for k, v in at.items()})


def compact(name, seed, *, scale, size, n_convs=3):
    m = Compact(num_feat=WIDTH, num_conv=n_convs, upscale=scale).double()
    fill(m, seed)
    at = {}

    def watch(path):
        def hook(_module, _inputs, out):
            at.setdefault(path, last(out.clone()))

        return hook

    for i in range(1, 2 * n_convs + 2, 2):
        # Slopes of about 0.25, where `fill` gives weights of one axis about 1.
        m.body[i].weight.data = (m.body[i].weight.data / 4).half().double()
        m.body[i].register_forward_hook(watch(f"body.{i}"))
    pixels = (noise(seed + 1, 1, 3, *size, scale=0.2) + 0.5).clamp(0, 1).float().double()
    with torch.no_grad():
        out = m(pixels)
    tensors = {"golden.in.x": last(pixels), "golden.out.x": last(out)}
    save(name, m.state_dict(), tensors | {f"golden.at.{k}": v for k, v in at.items()})


GOLDENS = {
    "esrgan_x4": lambda n: rrdb(n, 4000, scale=4, size=(11, 13), rename=sequence_to_real),
    "esrgan_x2": lambda n: rrdb(n, 4100, scale=4, size=(11, 13), unshuffle=2, rename=sequence_to_real),
    "esrgan_x1": lambda n: rrdb(n, 4200, scale=1, size=(11, 13), n_blocks=1),
    "esrgan_plus": lambda n: rrdb(n, 4300, scale=2, size=(9, 10), n_blocks=1, plus=True),
    "esrgan_trunk": lambda n: rrdb(n, 4400, scale=4, size=(6, 7), n_blocks=1, rename=sequence_to_trunk),
    "compact_x4": lambda n: compact(n, 4500, scale=4, size=(11, 13)),
    "compact_x1": lambda n: compact(n, 4600, scale=1, size=(9, 10)),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or GOLDENS:
        GOLDENS[name](name)
