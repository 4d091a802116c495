"""The engine: samples, scores and trains a causal language model of Hugging Face's shape, in PyTorch."""
