"""Packs a `export.py --q8` file as the GGUF that ships: Q8_0 where blocks of 32 inputs fit, f16 for other matrices, f32 for
vectors. Quantized kernels are stored [out, kh, kw, in], the engine's layout, so that blocks run along the inputs.

    python pack_gguf.py nino-emoji-q8.safetensors nino-emoji.gguf
"""

import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quants
from safetensors import safe_open

from export import quantizable


def main():
    source, target = sys.argv[1:]
    writer = GGUFWriter(target, "nino-emoji")
    with safe_open(source, "pt") as file:
        for key, value in sorted(file.metadata().items()):
            writer.add_string(key, value)
        for name in file.keys():
            if name.startswith("first_stage_model.taesd_encoder"):
                continue
            tensor = file.get_tensor(name).float()
            if quantizable(name, tensor):
                rows = np.ascontiguousarray(tensor.movedim(1, -1).numpy())
                packed = quants.quantize(rows, GGMLQuantizationType.Q8_0)
                assert np.array_equal(quants.dequantize(packed, GGMLQuantizationType.Q8_0), rows), name
                writer.add_tensor(name, packed, raw_dtype=GGMLQuantizationType.Q8_0)
            else:
                writer.add_tensor(name, tensor.numpy().astype(np.float16 if tensor.ndim > 1 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
