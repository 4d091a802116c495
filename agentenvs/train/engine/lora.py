"""LoRA: the weights stay, and a product of two thin matrices is learned beside them (Hu et al. 2021, equation 3).

``y = W x + (alpha / r) B A x`` with ``A`` drawn and ``B`` zero, so that the model begins as it was. The sampler gets
``W + (alpha / r) B A``. Adapters are written as peft writes them, and so they are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from agentenvs.core.errors import ConfigError

Weights = dict[str, Tensor]

SETTINGS, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."


@dataclass(frozen=True)
class LoraConfig:
    """Settings of adapters."""

    rank: int = 0
    """Of the product; the whole model is trained where 0."""
    alpha: float = 32.0
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Last parts of the names of the linear maps that are adapted."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.rank < 0 or not self.targets:
            raise ValueError("a rank is 0 or more, and something is adapted")


class Adapted(nn.Module):
    """A linear map with an adapter.

    Args:
        base: The map; it is frozen.
        rank: Of the adapter.
        scale: What the adapter is multiplied with.
        chance: Draws ``A``.
    """

    def __init__(self, base: nn.Linear, rank: int, scale: float, chance: torch.Generator) -> None:
        super().__init__()
        self.base, self.scale = base.requires_grad_(False), scale
        bound = 1.0 / base.in_features**0.5
        first = torch.empty(rank, base.in_features).uniform_(-bound, bound, generator=chance)
        self.a = nn.Parameter(first.to(base.weight.device))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank, device=base.weight.device))

    def forward(self, given: Tensor) -> Tensor:
        """Return ``W x + scale B A x``."""
        return self.base(given) + self.scale * F.linear(F.linear(given, self.a), self.b)  # type: ignore[no-any-return]


def adapt(model: nn.Module, config: LoraConfig, seed: int = 0) -> None:
    """Freeze a model and put adapters beside its linear maps; does nothing where the rank is 0.

    Raises:
        ConfigError: It has no map of those names.
    """
    if not config.rank:
        return
    found = [
        (name, one)
        for name, one in model.named_modules()
        if isinstance(one, nn.Linear) and name.rpartition(".")[2] in config.targets
    ]
    if not found:
        raise ConfigError("the model has nothing to adapt", why=f"no linear map is called {', '.join(config.targets)}")
    model.requires_grad_(False)
    chance = torch.Generator().manual_seed(seed)
    for name, one in found:
        owner, _, last = name.rpartition(".")
        setattr(model.get_submodule(owner), last, Adapted(one, config.rank, config.alpha / config.rank, chance))


def merged(model: nn.Module, state: Weights) -> Weights:
    """Return the weights of a model without adapters that does the same.

    Args:
        model: With adapters, or without.
        state: Its weights, whole.
    """
    found = dict(state)
    for name, one in adapters(model):
        a, b = found.pop(f"{name}.a"), found.pop(f"{name}.b")
        found[f"{name}.weight"] = found.pop(f"{name}.base.weight") + one.scale * (b @ a)
        if f"{name}.base.bias" in found:
            found[f"{name}.bias"] = found.pop(f"{name}.base.bias")
    return found


@torch.no_grad()
def unwrapped(model: Any) -> Any:
    """Return a model whose adapters are merged into its weights, and gone."""
    state = merged(model, model.state_dict())
    for name, one in list(adapters(model)):
        owner, _, last = name.rpartition(".")
        setattr(model.get_submodule(owner), last, one.base)
    model.load_state_dict(state)
    return model


def adapters(model: nn.Module) -> Iterator[tuple[str, Adapted]]:
    """Yield the adapters of a model and their names."""
    return ((name, one) for name, one in model.named_modules() if isinstance(one, Adapted))


def save(model: nn.Module, state: Weights, config: LoraConfig, folder: Path, base: str) -> None:
    """Write the adapters of a model as peft does.

    Args:
        model: With adapters.
        state: Its weights, whole.
        config: Its settings.
        folder: Where to.
        base: The folder of the model they were trained beside.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    kept: Weights = {}
    for name, _ in adapters(model):
        kept[f"{_PREFIX}{name}.lora_A.weight"] = state[f"{name}.a"].contiguous().cpu()
        kept[f"{_PREFIX}{name}.lora_B.weight"] = state[f"{name}.b"].contiguous().cpu()
    save_file(kept, folder / WEIGHTS, metadata={"format": "pt"})
    form = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": config.rank,
        "lora_alpha": config.alpha,
        "lora_dropout": 0.0,
        "target_modules": list(config.targets),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    (folder / SETTINGS).write_text(json.dumps(form, indent=2) + "\n", encoding="utf-8")


def base_of(folder: Path) -> str | None:
    """Return what a folder of adapters says it was trained beside; None of any other folder.

    Raises:
        ConfigError: Its settings are damaged.
    """
    try:
        return str(json.loads((folder / SETTINGS).read_text(encoding="utf-8"))["base_model_name_or_path"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{folder / SETTINGS} is damaged", why=str(error)) from error


@torch.no_grad()
def merge_into(model: Any, folder: Path) -> None:
    """Add the adapters of a folder to the weights of a model.

    Raises:
        ConfigError: They are of another kind, or of another model.
    """
    from safetensors.torch import load_file

    form = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    odd = [name for name in ("use_dora", "use_rslora", "rank_pattern", "alpha_pattern") if form.get(name)]
    if form.get("peft_type") != "LORA" or odd or form.get("bias", "none") != "none":
        raise ConfigError(f"{folder} holds adapters of another kind", why=", ".join(odd), fix="merge them with peft")
    state = load_file(folder / WEIGHTS)
    own = dict(model.named_modules())
    for key in [name for name in state if name.endswith(".lora_A.weight")]:
        name = key.removeprefix(_PREFIX).removesuffix(".lora_A.weight")
        if name not in own:
            raise ConfigError(f"{folder} adapts {name}, which the model has not", fix="name the model it is of")
        a, b = state[key], state[key.replace("lora_A", "lora_B")]
        own[name].weight += (float(form["lora_alpha"]) / int(form["r"])) * (b.float() @ a.float())
