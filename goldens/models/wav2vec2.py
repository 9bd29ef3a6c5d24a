"""Writes the goldens of wav2vec 2.0, in the form of `make.py`.

    python goldens/models/wav2vec2.py PATH/TO/ComfyUI [name ...]

The reference is ComfyUI 0.30's `comfy/audio_encoders/wav2vec2.py` in f64; `goldens/generate/oracle.py` says what to
install and where to get it.
"""

import pathlib
import sys

COMFY = sys.argv.pop(1)
sys.path[:0] = [COMFY, str(pathlib.Path(__file__).parent)]
WANTED = sys.argv[1:]
sys.argv = [sys.argv[0], "--cpu"]

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

import comfy.audio_encoders.wav2vec2 as wav2vec2  # noqa: E402
import comfy.ops  # noqa: E402
import torch  # noqa: E402
from make import fill, noise, save  # noqa: E402

WIDTH, CONV = 32, 16
# Frames beyond the window of the positional convolution.
SAMPLES = 45_000


def case(name, seed, large):
    settings = dict(dtype=torch.float64, device="cpu", operations=comfy.ops.manual_cast)
    m = wav2vec2.Wav2Vec2Model(embed_dim=WIDTH, num_heads=2, num_layers=2, conv_norm=large, conv_bias=large,
                               do_normalize=large, do_stable_layer_norm=large, **settings)  # fmt: skip
    m.feature_extractor = wav2vec2.ConvFeatureEncoder(CONV, conv_norm=large, conv_bias=large, **settings)
    m.feature_projection = wav2vec2.FeatureProjection(CONV, WIDTH, **settings)
    fill(m, seed)
    # Two channels, which the model takes the mean of.
    samples = noise(seed + 1, 1, 2, SAMPLES, scale=0.1).half()
    tensors, at = {"golden.in.samples": samples[0]}, {}

    def keep(path):
        def hook(_module, _inputs, out):
            at.setdefault(path, out.clone())

        return hook

    wanted = [("feature_projection", m.feature_projection), ("encoder.pos_conv_embed", m.encoder.pos_conv_embed)]
    wanted += [(f"encoder.layers.{i}", layer) for i, layer in enumerate(m.encoder.layers)]
    for path, module in wanted:
        module.register_forward_hook(keep(path))
    with torch.no_grad():
        out, states = m(samples.double())
    assert torch.equal(out, states[-1])
    tensors |= {f"golden.out.{i}": v.float().contiguous() for i, v in enumerate(states)}
    tensors |= {f"golden.at.{k}": v.float().contiguous() for k, v in at.items()}
    spelled = {
        k.replace("parametrizations.weight.original0", "weight_g").replace("parametrizations.weight.original1", "weight_v"): v
        for k, v in m.state_dict().items()
    }
    save(name, spelled, tensors)


GOLDENS = {
    "wav2vec2_large": lambda n: case(n, 3800, True),
    "wav2vec2_base": lambda n: case(n, 3900, False),
}

if __name__ == "__main__":
    for name in WANTED or GOLDENS:
        GOLDENS[name](name)
