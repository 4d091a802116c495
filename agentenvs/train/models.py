"""Models: small ones with random weights, or any folder of Hugging Face's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenvs.core.errors import ConfigError, MissingExtraError
from agentenvs.train.plugins import at_least

try:
    import torch
    import transformers
except ImportError as error:  # pragma: no cover - the base install
    raise MissingExtraError("training needs PyTorch and transformers", fix='pip install "agentenvs[train]"') from error


@dataclass(frozen=True)
class Shape:
    """The shape of a model made from nothing: Qwen 3's, whose queries and keys are normalised.

    One head of keys and values nearly doubles the speed of sampling on a CPU.
    """

    hidden: int = 128
    layers: int = 3
    heads: int = 4
    key_value_heads: int = 1
    feed_forward: int = 384
    length: int = 2048
    tied: bool = True

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        at_least(self, 1, "hidden", "layers", "heads", "key_value_heads", "feed_forward", "length")


def build(shape: Shape, vocabulary: int, seed: int) -> Any:
    """Return a model of random weights; the same seed gives the same ones.

    Raises:
        ConfigError: The heads do not divide the width.
    """
    if shape.hidden % shape.heads or shape.heads % shape.key_value_heads:
        raise ConfigError(f"{shape.heads} heads do not divide {shape.hidden}, or are not shared evenly")
    config = transformers.Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        head_dim=shape.hidden // shape.heads,
        max_position_embeddings=shape.length,
        tie_word_embeddings=shape.tied,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.Qwen3ForCausalLM(config)


def load(folder: str | Path) -> tuple[Any, Any]:
    """Return model, in float32, and tokenizer of a folder, of a model or of adapters; no network is asked.

    Raises:
        ConfigError: It is no such folder.
    """
    from agentenvs.train.engine import lora

    path = Path(folder)
    base = lora.base_of(path)
    if base is not None:
        model, words = load(base)
        lora.merge_into(model, path)
        return model, words
    if not (path / "config.json").is_file():
        raise ConfigError(
            f"{path} holds no model", why="config.json is not there", fix="name a folder of Hugging Face's"
        )
    _quietly()
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, local_files_only=True)
        words = tokenizer(path)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{path} cannot be read", why=str(error).splitlines()[0]) from error
    return model, words


def moved(model: Any, device: str | torch.device) -> Any:
    """Return a model on a device.

    Raises:
        ConfigError: It cannot be moved there.
    """
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"the model cannot be moved to {device}", why=str(error).splitlines()[0]) from error


def tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a folder."""
    return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)


def store(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write model and tokenizer as a folder of Hugging Face's."""
    folder.mkdir(parents=True, exist_ok=True)
    _quietly()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _quietly() -> None:
    """Show no bars of transformers' own: a run tells its progress itself."""
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
