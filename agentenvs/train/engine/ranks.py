"""Several processes that train one model: who plays what, who computes what, and how weights become whole again.

Under ``torchrun`` each process is a rank and runs the same program. Each plays its share of the groups with a sampler
of its own; then every rank holds all episodes, so that credit, plug-ins and the weights of tokens are the same
everywhere, and computes its share of the micro-batches. The model is sharded by FSDP2 (``fully_shard``), whose
gradients are means over ranks: losses are multiplied by their number, and so are sums. In one process all of this is
nothing.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")
Weights = dict[str, Tensor]

PATIENCE = timedelta(minutes=30)
"""How long a rank waits for another one before it gives up."""


@dataclass(frozen=True)
class Ranks:
    """The processes of a run."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this one writes files and talks."""
        return self.rank == 0

    # ---- shares ----------------------------------------------------------------------------------------------------

    def mine(self, number: int) -> bool:
        """Return whether a thing of this number is this rank's."""
        return number % self.size == self.rank

    def share(self, things: Sequence[T]) -> list[tuple[T, bool]]:
        """Return this rank's share, as long as every other's, and whether each counts: the rest repeats the last."""
        found = [(one, True) for number, one in enumerate(things) if self.mine(number)]
        most = -(-len(things) // self.size)
        return found + [(things[-1], False)] * (most - len(found))

    # ---- what all know ---------------------------------------------------------------------------------------------

    def gather(self, things: Sequence[T]) -> list[T]:
        """Return the things of all ranks, rank after rank."""
        if self.size == 1:
            return list(things)
        found: list[list[T]] = [[] for _ in range(self.size)]
        dist.all_gather_object(found, list(things))
        return [one for some in found for one in some]

    def sum(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Return sums over all ranks; every rank must know the same names."""
        if self.size == 1:
            return dict(numbers)
        found: list[Mapping[str, float]] = [{} for _ in range(self.size)]
        dist.all_gather_object(found, dict(numbers))
        return {name: sum(one[name] for one in found) for name in numbers}

    def wait(self) -> None:
        """Wait for all ranks."""
        if self.size > 1:
            dist.barrier()

    # ---- the model -------------------------------------------------------------------------------------------------

    def shard(self, model: Any) -> None:
        """Shard a model over the ranks, block by block; its computations then go through :func:`within`."""
        if self.size == 1:
            return
        from torch.distributed.device_mesh import init_device_mesh  # slow to import, and one process needs it not
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        device = next(model.parameters()).device.type
        mesh = init_device_mesh(device, (self.size,))
        for block in blocks(model):
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        model.within = types.MethodType(_run, model)
        register_fsdp_forward_method(model, "within")


def blocks(model: Any) -> Iterator[nn.Module]:
    """Yield the blocks of a model."""
    body = model.base_model
    return iter(body.layers if hasattr(body, "layers") else body.h)


def join(device: str) -> Ranks:
    """Return the processes that ``torchrun`` began, once they have found each other; one where it did not."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Ranks()
    if not dist.is_initialized():
        cuda = device.startswith("cuda")
        if cuda:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=PATIENCE)
    return Ranks(dist.get_rank(), dist.get_world_size())


def talks() -> bool:
    """Return whether this is the process, of those that ``torchrun`` began, that writes files and talks."""
    return os.environ.get("RANK", "0") == "0"


def leave() -> None:
    """Take leave of the other ranks."""
    if dist.is_initialized():
        dist.destroy_process_group()


def within(model: Any, run: Callable[..., T], *arguments: Any) -> T:
    """Compute with a model whose shards are put together meanwhile."""
    around: Callable[..., T] | None = getattr(model, "within", None)
    return run(*arguments) if around is None else around(run, *arguments)


def _run(model: Any, run: Callable[..., T], *arguments: Any) -> T:
    return run(*arguments)


def whole(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of the tensors of a state, whole; all ranks must ask."""
    return {name: _whole(value) for name, value in state.items()}


def _whole(value: Any) -> Any:
    if hasattr(value, "full_tensor"):  # a DTensor
        value = value.full_tensor()
    return value.detach().clone() if isinstance(value, Tensor) else value


@torch.no_grad()
def put(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Set the weights of a model, sharded or not, from whole ones.

    Raises:
        RuntimeError: They are of another model.
    """
    own = model.state_dict()
    if set(own) != set(state):
        raise RuntimeError(f"weights of another model: {sorted(set(own) ^ set(state))[:3]}")
    for name, value in own.items():
        if value.shape != state[name].shape:
            raise RuntimeError(f"{name} has the shape {tuple(state[name].shape)}, not {tuple(value.shape)}")
        value.copy_(like(value, state[name]))


def like(value: Any, given: Tensor) -> Tensor:
    """Return a whole tensor as another one is laid out."""
    if hasattr(value, "full_tensor"):
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(given.to(value.device), value.device_mesh, value.placements)
    return given.to(value.device)


def optimizer_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return the state of an optimizer, whole; all ranks must ask."""
    state = optimizer.state_dict()
    return {**state, "state": {key: whole(one) for key, one in state["state"].items()}}


def put_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Set the state of an optimizer from a whole one.

    Raises:
        ValueError: It is of another model.
    """
    params = [one for group in optimizer.param_groups for one in group["params"]]
    laid = {
        key: {name: like(params[key], value) if value.ndim else value for name, value in one.items()}
        for key, one in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": laid})
