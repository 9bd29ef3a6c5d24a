"""Writes the goldens of Wan's transformers, in the form of `make.py`.

    python goldens/models/wan_transformer.py PATH/TO/ComfyUI [name ...]

The reference is ComfyUI 0.30's `comfy/ldm/wan/model.py`; `goldens/generate/oracle.py` says what to
install and where to get it. Arithmetic is f32, since ComfyUI does not rotate queries in f64.
"""

import pathlib
import sys

COMFY = sys.argv.pop(1)
sys.path[:0] = [COMFY, str(pathlib.Path(__file__).parent)]
WANTED = sys.argv[1:]
sys.argv = [sys.argv[0], "--cpu"]

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

import comfy.ldm.wan.model as wan  # noqa: E402
import comfy.ops  # noqa: E402
import torch  # noqa: E402
from make import fill, last, save  # noqa: E402
from make import noise as exact_noise  # noqa: E402

CLIP_WIDTH, TEXT_WIDTH = 40, 24


def noise(*given):
    return exact_noise(*given).float()


def case(name, seed, *, camera=0, skipped=(), kind="t2v", channels=16, extra=0, size=(3, 5, 6), layers=2, image=None, places=None, reference=False, frame_times=False, controls=()):
    """Two heads of 32 values. `image`: tokens of CLIP's view; `controls`: strengths of VACE's clips."""
    settings = dict(in_dim=channels + extra, out_dim=channels, dim=64, ffn_dim=96, num_heads=2, num_layers=layers,
                    text_dim=TEXT_WIDTH, freq_dim=32, flf_pos_embed_token_number=places, operations=comfy.ops.manual_cast)  # fmt: skip
    if controls:
        m = wan.VaceWanModel(vace_layers=2, vace_in_dim=20, **settings)
    elif camera:
        m = wan.CameraWanModel(model_type="camera_2.2", in_dim_control_adapter=camera, **settings)
    else:
        m = wan.WanModel(model_type=kind, in_dim_ref_conv=channels if reference else None, **settings)
    if kind == "i2v":
        ops = {"operations": comfy.ops.manual_cast}
        m.img_emb = wan.MLPProj(CLIP_WIDTH, 64, flf_pos_embed_token_number=places, operation_settings=ops)
    fill(m, seed).float()
    b, (t, h, w) = 2, size
    x, context = noise(seed + 1, b, channels + extra, t, h, w), noise(seed + 2, b, 7, TEXT_WIDTH)
    times = torch.tensor([900.0, 300.0])
    if frame_times:
        times = torch.tensor([[0.0] + [900.0] * (t - 1), [0.0] + [300.0] * (t - 1)])
    given = {}
    tensors = {"golden.in.x": last(x), "golden.in.t": times.reshape(-1), "golden.in.context": context.float()}
    if image:
        given["clip_fea"] = noise(seed + 3, b, image, CLIP_WIDTH)
        tensors["golden.in.image"] = given["clip_fea"].float()
    if reference:
        given["reference_latent"] = noise(seed + 4, b, channels, h, w)
        tensors["golden.in.reference"] = last(given["reference_latent"])
    if controls:
        clips = [noise(seed + 5 + i, b, 20, t, h + h % 2, w + w % 2) for i in range(len(controls))]
        given |= dict(vace_context=torch.stack(clips, 1), vace_strength=list(controls))
        for i, clip in enumerate(clips):
            tensors[f"golden.in.control{i}"] = last(clip)
            tensors[f"golden.in.strength{i}"] = torch.tensor([controls[i]])
    if camera:
        rays = noise(seed + 6, b, camera, t, 8 * h, 8 * w)
        given["camera_conditions"] = rays
        rays = torch.nn.functional.pixel_unshuffle(rays.transpose(1, 2), 8)
        tensors["golden.in.camera"] = rays.movedim(2, -1).contiguous()
    at = {}
    wanted = [("time_embedding", m.time_embedding)] + [(f"blocks.{i}", b) for i, b in enumerate(m.blocks)]
    wanted += [("img_emb", m.img_emb)] if image else []

    def keep(path):
        def hook(_module, _inputs, out):
            # A hook's return value would replace the output.
            at.setdefault(path, out.clone())

        return hook

    for path, module in wanted:
        module.register_forward_hook(keep(path))
    with torch.no_grad():
        out = m(x, times, context, **given)
        if image:
            tensors["golden.out.no_image"] = last(m(x, times, context))
        if skipped:
            left_out = {("double_block", i): lambda args, _: args for i in skipped}
            told = {"patches_replace": {"dit": left_out}}
            tensors["golden.out.skipped"] = last(m(x, times, context, transformer_options=told, **given))
    tensors["golden.out.x"] = last(out)
    tensors |= {f"golden.at.{k}": v.float() for k, v in at.items()}
    save(name, m.state_dict(), tensors)


def sound(name, seed):
    """A sound-to-video model with each of what it may be given. At `odd` sizes, its motion latents have fewer tokens
    than ComfyUI's shares of timesteps reckon with."""
    m = wan.WanModel_S2V(in_dim=16, out_dim=16, dim=24, ffn_dim=32, num_heads=2, num_layers=5, text_dim=TEXT_WIDTH,
                         freq_dim=32, audio_dim=12, audio_inject_layers=[0, 4], operations=comfy.ops.manual_cast)  # fmt: skip
    fill(m, seed).float()
    # Their sum divides.
    weights = m.casual_audio_encoder.weights
    weights.data = (1 + 0.3 * exact_noise(seed + 1, *weights.shape)).half().float()
    context, times = noise(seed + 2, 2, 7, TEXT_WIDTH), torch.tensor([900.0, 300.0])
    tensors, at = {}, {}

    def keep(path, part=lambda out: out):
        def hook(_module, _inputs, out):
            at.setdefault(path, part(out).clone())

        return hook

    for i in (0, 4):
        m.blocks[i].register_forward_hook(keep(f"blocks.{i}"))
    encoder = m.casual_audio_encoder.encoder
    encoder.register_forward_hook(keep("casual_audio_encoder.encoder", lambda out: out[1].flatten(0, 1)))
    everything = ("audio_embed", "reference_latent", "control_video", "reference_motion")
    cases = [
        ("all", (2, 8, 12), everything),
        ("image", (2, 8, 12), everything[:2]),
        ("motion", (2, 8, 12), ("audio_embed", "reference_motion")),
        ("plain", (2, 8, 12), ()),
        ("odd", (1, 14, 14), everything),
    ]
    for case, (t, h, w), which in cases:
        size, b = ("odd", 1) if case == "odd" else ("in", 2)
        x = noise(seed + 3, b, 16, t, h, w)
        motion = noise(seed + 7, b, 16, 19, h, w).half()
        given = {
            "audio_embed": noise(seed + 4, b, 25, 12, 4 * t),
            "reference_latent": noise(seed + 5, b, 16, 1, h, w),
            "control_video": noise(seed + 6, b, 16, t, h, w),
            "reference_motion": motion.float(),
        }
        tensors[f"golden.{size}.x"] = last(x)
        tensors[f"golden.{size}.t"], tensors[f"golden.{size}.context"] = times[:b].clone(), context[:b].clone()
        tensors[f"golden.{size}.audio_embed"] = given["audio_embed"].transpose(2, 3).contiguous()
        tensors[f"golden.{size}.reference_latent"] = last(given["reference_latent"][:, :, 0])
        tensors[f"golden.{size}.control_video"] = last(given["control_video"])
        tensors[f"golden.{size}.reference_motion"] = last(motion).half()
        with torch.no_grad():
            out = m(x, times[:b], context[:b], **{k: given[k] for k in which})
        tensors[f"golden.out.{case}"] = last(out)
    tensors |= {f"golden.at.{k}": v.float() for k, v in at.items()}
    save(name, m.state_dict(), tensors)


GOLDENS = {
    "wan_t2v": lambda n: case(n, 3000, skipped=(1, 7)),
    "wan_i2v": lambda n: case(n, 3100, kind="i2v", extra=20, image=5),
    "wan_flf": lambda n: case(n, 3200, kind="i2v", extra=20, image=6, places=6, size=(2, 4, 4)),
    "wan_5b": lambda n: case(n, 3300, channels=48, size=(3, 4, 6), frame_times=True),
    "wan_vace": lambda n: case(n, 3400, layers=4, controls=(1.0, 0.5), size=(2, 4, 6)),
    "wan_camera": lambda n: case(n, 3600, extra=20, camera=3, size=(2, 4, 6)),
    "wan_s2v": lambda n: sound(n, 3700),
    "wan_fun": lambda n: case(n, 3500, extra=36, reference=True, size=(2, 6, 4)),
}

if __name__ == "__main__":
    for name in WANTED or GOLDENS:
        GOLDENS[name](name)
