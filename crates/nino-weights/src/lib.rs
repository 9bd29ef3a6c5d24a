//! Model files: safetensors, GGUF, fp8, pickles, LoRA; names, detection, conversion.
