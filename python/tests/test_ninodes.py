"""The package with numpy alone: `cargo xtask python` runs these."""

import json
import logging
import os
import signal
import struct
import tempfile
import threading
import unittest

import numpy as np

import ninodes
from ninodes import engine as engines

GOLDENS = os.path.join(os.path.dirname(__file__), "..", "..", "goldens", "models")


def golden(name):
    """The tensors of a golden file: those of the network, and those that were recorded."""
    with open(os.path.join(GOLDENS, f"{name}.safetensors"), "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    network, recorded = {}, {}
    for key, entry in header.items():
        begin, end = entry["data_offsets"]
        kind = {"F32": "<f4", "F16": "<f2"}[entry["dtype"]]
        values = np.frombuffer(data[begin:end], dtype=kind).reshape(entry["shape"])
        side = recorded if key.startswith("golden.") else network
        side[key.removeprefix("golden.")] = values
    return network, recorded


class Stages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = ninodes.Engine("cpu", threads=2)
        cls.model = ninodes.open_model()

    def test_devices_name_the_cpu_first(self):
        found = ninodes.devices()
        self.assertEqual(found[0]["name"], "cpu")
        self.assertGreater(found[0]["budget"], 0)

    def test_tensors_are_the_files(self):
        network, recorded = golden("taesd")
        found = dict(ninodes.tensors(os.path.join(GOLDENS, "taesd.safetensors")))
        self.assertEqual(len(found), len(network) + len(recorded))
        for name, values in network.items():
            np.testing.assert_array_equal(found[name], values.astype(np.float32))

    def test_tensors_of_no_file(self):
        with self.assertRaises(ninodes.NinoError):
            next(ninodes.tensors("there-is-none.gguf"))

    def test_a_picture_by_stages(self):
        texts = self.engine.encode_text(self.model.text, ["a smiling sun", ""])
        self.assertEqual(texts[0].context.ndim, 2)
        steps = []
        sampled = self.engine.sample(
            self.model.diffusion,
            texts[0],
            texts[1],
            steps=3,
            seed=7,
            progress=lambda stage, done, total: steps.append((stage, done, total)),
        )
        self.assertIn(("sample", 3.0, 3), steps)
        decoded = self.engine.decode(self.model.vae, sampled.latent)
        self.assertEqual(decoded.images.dtype, np.float32)
        self.assertEqual(decoded.images.shape[3], 3)
        self.assertGreater(decoded.images.std(), 0.05)
        # Plan and books agree.
        self.assertEqual(decoded.report["peak_bytes"], decoded.report["planned_bytes"])
        again = self.engine.sample(
            self.model.diffusion, texts[0], texts[1], steps=3, seed=7
        )
        np.testing.assert_array_equal(again.latent, sampled.latent)

    def test_calls_are_counted_by_what_they_came_to(self):
        engine = ninodes.Engine("cpu", threads=2)
        self.assertEqual(engine.statistics()["total_executions"], 0)
        self.assertIsNone(engine.statistics()["cache_hit_rate"])
        side = self.model.diffusion.defaults.size // 8
        one = np.zeros((1, self.model.diffusion.latent_channels, side, side), dtype=np.float32)
        for latent in (one, one, np.repeat(one, 2, axis=0)):
            engine.decode(self.model.vae, latent, precision="f32")
        engine.decode(self.model.vae, one, precision="f16")
        found = engine.statistics()
        self.assertEqual(found["total_executions"], 4)
        self.assertGreater(found["average_execution_time"], 0)
        # The first call loads; whether another precision does is the device's affair.
        self.assertIn(found["cache_hit_rate"], (0.5, 0.75))
        self.assertEqual(found["total_memory_saves"], 0)
        self.assertEqual(found["memory_efficiency"], 1.0)
        self.assertEqual(found["total_precision_optimizations"], 1)
        self.assertEqual(found["precision_efficiency"], 1.0)
        self.assertEqual(found["total_batch_optimizations"], 1)
        self.assertGreater(found["batch_efficiency"], 0)

    def test_given_noise_is_the_noise_of_the_seed_or_another(self):
        texts = self.engine.encode_text(self.model.text, ["a star", ""])
        side = self.model.diffusion.defaults.size // 8
        shape = (1, self.model.diffusion.latent_channels, side, side)
        noise = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
        given = [
            self.engine.sample(self.model.diffusion, *texts, steps=1, noise=n).latent
            for n in (noise, noise, -noise)
        ]
        np.testing.assert_array_equal(given[0], given[1])
        self.assertGreater(np.abs(given[0] - given[2]).max(), 0.1)

    def test_tensors_in_memory_give_what_the_golden_has(self):
        network, recorded = golden("taesd")
        vae = ninodes.Vae.of_tensors(network, "taesd")
        # The golden is the network's own; the stages scale latents to and from the VAE's units.
        factor = np.float32(0.18215)
        latent = np.moveaxis(recorded["in.z"], -1, 1) / factor
        images = self.engine.decode(vae, latent, format="sd15").images
        np.testing.assert_allclose(images, recorded["out.x"], atol=2e-4)
        encoded = self.engine.encode(vae, recorded["in.x"], format="sd15").latent
        want = np.moveaxis(recorded["out.z"], -1, 1)
        np.testing.assert_allclose(encoded * factor, want, atol=2e-4)

    def test_plans_load_nothing(self):
        loads = self.engine.usage()["loads"]
        whole = self.engine.plan("sdxl")
        self.assertGreater(whole["peak_bytes"], 1 << 30)
        vae = ninodes.Vae.made_up("sd-vae")
        large = self.engine.plan_decode(vae, (1024, 1024))
        small = self.engine.plan_decode(vae, (1024, 1024), budget=large["peak_bytes"] // 2)
        self.assertLessEqual(small["peak_bytes"], large["peak_bytes"] // 2)
        self.assertEqual(self.engine.usage()["loads"], loads)

    def test_plans_that_favor_memory_are_small_and_the_picture_is_the_same(self):
        vae = ninodes.Vae.made_up("sd-vae")
        quick, small = (
            self.engine.plan_decode(vae, (512, 512), favor=favor)["peak_bytes"]
            for favor in ("time", "memory")
        )
        self.assertLess(small, quick / 2)
        latent = np.random.default_rng(1).standard_normal((1, 4, 8, 8)).astype(np.float32)
        pictures = [self.engine.decode(vae, latent, favor=f).images for f in ("time", "memory")]
        np.testing.assert_array_equal(*pictures)
        with self.assertRaises(ValueError):
            self.engine.plan_decode(vae, (64, 64), favor="speed")

    def test_errors_have_a_kind(self):
        with self.assertRaises(ninodes.NinoError) as caught:
            ninodes.Vae.open("/no/such/file.safetensors")
        self.assertEqual(caught.exception.kind, "file")
        with self.assertRaises(ninodes.NinoError) as caught:
            self.engine.decode(self.model.vae, np.zeros((1, 3, 8, 8), np.float32))
        self.assertIn("channels", str(caught.exception))
        with self.assertRaises(ValueError):
            self.engine.decode(self.model.vae, np.zeros((1, 4, 8, 8)), precision="f8")

    def test_what_a_callback_raises_comes_out(self):
        class Enough(Exception):
            pass

        def stop(stage, done, total):
            if stage == "sample":
                raise Enough

        texts = self.engine.encode_text(self.model.text, ["a cat", ""])
        with self.assertRaises(Enough):
            self.engine.sample(self.model.diffusion, *texts, steps=500, progress=stop)
        # The engine is as good as before.
        self.engine.sample(self.model.diffusion, *texts, steps=1)

    def test_ctrl_c_stops_a_run(self):
        # A shell that runs tests in the background has Python ignore it.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        texts = self.engine.encode_text(self.model.text, ["a cat", ""])
        timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            self.engine.sample(self.model.diffusion, *texts, steps=5000)
        timer.join()

    def test_another_thread_runs_meanwhile(self):
        ticks = []
        done = threading.Event()

        def tick():
            while not done.wait(0.005):
                ticks.append(1)

        thread = threading.Thread(target=tick)
        thread.start()
        texts = self.engine.encode_text(self.model.text, ["a fish", ""])
        self.engine.sample(self.model.diffusion, *texts, steps=10)
        done.set()
        thread.join()
        self.assertGreater(len(ticks), 5)

    def test_previews_are_pictures(self):
        shown = []
        texts = self.engine.encode_text(self.model.text, ["a tree", ""])
        self.engine.sample(self.model.diffusion, *texts, steps=2, preview=shown.append)
        self.assertEqual(len(shown), 2)
        self.assertEqual(shown[0].ndim, 3)

    def test_inspect_names_the_parts(self):
        from ninodes import _native
        from ninodes.models import cache_dir

        found = ninodes.inspect(_native.builtin(cache_dir()))
        self.assertGreater(found["params"], 1_000_000)
        self.assertEqual(found["format"].lower(), "gguf")

    def test_notes_go_to_the_log(self):
        network, _ = golden("taesd")
        vae = ninodes.Vae.of_tensors(network, "unnamed")
        with self.assertLogs("ninodes", logging.INFO) as heard:
            self.engine.decode(vae, np.zeros((1, 4, 4, 4), np.float32))
        self.assertTrue(any("sd15" in line for line in heard.output), heard.output)


class Values(unittest.TestCase):
    def test_sizes(self):
        self.assertEqual(engines.in_bytes("3.5GiB"), int(3.5 * (1 << 30)))
        self.assertEqual(engines.in_bytes("512 MiB"), 512 << 20)
        self.assertEqual(engines.in_bytes("10"), 10)
        with self.assertRaises(ValueError):
            engines.in_bytes("much")

    def test_config_round_trips(self):
        for suffix in (".yaml", ".toml"):
            config = ninodes.Config(use_quantization=True, quantization_bits=4, log_file="a.log")
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, f"config{suffix}")
                config.save(path)
                self.assertEqual(ninodes.Config.load(path), config)

    def test_config_refuses_what_cannot_be_meant(self):
        config = ninodes.Config()
        with self.assertRaisesRegex(ValueError, "quantization_bits"):
            config.update(quantization_bits=3)
        with self.assertRaisesRegex(ValueError, "did you mean use_quantization"):
            ninodes.Config().update(use_quantisation=True)

    def test_config_means_what_the_command_line_means(self):
        class Model:
            def quantized(self, dtype):
                return dtype

        config = ninodes.Config(use_quantization=True, quantization_bits=4, precision_mode="mixed")
        self.assertEqual(config.held(Model()), "q4_k")
        self.assertEqual(config.decode_options()["precision"], "f16")

    def test_every_key_of_the_config_is_explained(self):
        from ninodes.config import MEANINGS, PRESETS, preset

        self.assertEqual(set(ninodes.Config().to_dict()), set(MEANINGS))
        for name in PRESETS:
            preset(name).validate()

    def test_profiler_counts(self):
        profiler = ninodes.Profiler()
        for _ in range(3):
            with profiler.stretch("inference"):
                pass
        row = profiler.get_summary()["inference"]
        self.assertEqual(row["count"], 3)
        self.assertLessEqual(row["min_ms"], row["median_ms"])
        with self.assertRaises(ValueError):
            profiler.end("inference")

    def test_memory_manager_tells_the_allocators_numbers(self):
        engine = ninodes.Engine("cpu", threads=2)
        manager = ninodes.MemoryManager(engine)
        self.assertEqual(manager.get_stats().used_vram_gb, 0.0)
        vae = ninodes.Vae.made_up("taesd")
        engine.decode(vae, np.zeros((1, 4, 8, 8), np.float32), format="sd15")
        self.assertGreater(manager.get_stats().used_vram_gb, 0.0)
        engine.clear()
        self.assertEqual(manager.get_stats().used_vram_gb, 0.0)


if __name__ == "__main__":
    unittest.main()
