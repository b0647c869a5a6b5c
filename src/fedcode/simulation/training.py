"""Local training: one client, one round, a fresh optimiser.

Nothing here depends on who else trains where. What is drawn depends on (seed, round, client) alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedcode.data import Dataset
from fedcode.errors import ArgumentError
from fedcode.simulation import draws
from fedcode.state import flatten

Loss = Callable[[Any, Tensor], Tensor]


def train(
    model: nn.Module,
    dataset: Dataset,
    indices: npt.NDArray[np.int64] | Tensor,
    *,
    epochs: int,
    batch: int,
    optimizer: str,
    lr: float,
    seed: int,
    round: int,
    client: str,
    proximal: float = 0.0,
    mask: npt.NDArray[np.bool_] | None = None,
    loss: Loss | None = None,
    precision: str = "float32",
    step: nn.Module | None = None,
) -> float:
    """Train the model in place on these examples; the mean loss of the last epoch.

    proximal: mu of mu/2 times the squared distance from where training began, added to the loss. mask: over the
    model's flat vector; what it does not allow is kept at zero. step: the same model compiled, to be called in its
    place.
    """
    device = dataset.train_inputs.device
    model.train()
    of = loss or usual_loss(dataset)
    called = model if step is None else step
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    steps = make_optimizer(optimizer, trained, lr)
    anchors = [parameter.detach().clone() for parameter in trained] if proximal else []
    kept = _kept(model, mask)
    augmentation = draws.generator("augmentation", seed, round, client) if dataset.augment else None
    total, seen = torch.zeros((), device=device), 0
    with draws.seeded("training", seed, round, client, device=device):
        order = draws.generator("order", seed, round, client)
        for epoch in range(epochs):
            for chosen in batches(len(indices), batch, order):
                inputs, labels = dataset.train(torch.as_tensor(indices)[chosen], augmentation)
                steps.zero_grad(set_to_none=True)
                with autocast(precision, device):
                    value = of(called(inputs), labels)
                value.backward()  # type: ignore[no-untyped-call]
                for parameter, anchor in zip(trained, anchors, strict=bool(anchors)):
                    if parameter.grad is not None:
                        parameter.grad.add_(parameter.detach() - anchor, alpha=proximal)
                steps.step()
                for values, allowed in kept:
                    values.mul_(allowed)
                if epoch == epochs - 1:
                    total += value.detach().float() * len(chosen)
                    seen += len(chosen)
    return float(total) / seen


def batches(examples: int, size: int, order: torch.Generator) -> Iterator[Tensor]:
    """One epoch's batches of positions below `examples`, shuffled.

    A lone last example joins the batch before it, as normalisation cannot work on one.

    >>> [len(part) for part in batches(257, 128, torch.Generator().manual_seed(0))]
    [128, 129]
    """
    parts = list(torch.split(torch.randperm(examples, generator=order), size))
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [torch.cat(parts[-2:])]
    yield from parts


def usual_loss(dataset: Dataset) -> Loss:
    """Cross-entropy for classes, squared error for anything else."""
    return nn.functional.cross_entropy if dataset.classes else nn.functional.mse_loss


def make_optimizer(name: str, parameters: list[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """A fresh optimiser: "adam", "sgd", or "momentum" (SGD with 0.9), fused where that gives one kernel.

    >>> type(make_optimizer("adam", [nn.Parameter(torch.zeros(1))], 0.001)).__name__
    'Adam'
    """
    kinds = {parameter.device.type for parameter in parameters}
    floats = all(parameter.dtype in (torch.float32, torch.float64) for parameter in parameters)
    fused = (kinds <= {"cpu"} or kinds <= {"cuda"}) and floats
    if name == "adam":
        return torch.optim.Adam(parameters, lr=lr, fused=fused)
    if name in ("sgd", "momentum"):
        return torch.optim.SGD(parameters, lr=lr, momentum=0.9 if name == "momentum" else 0.0, fused=fused)
    raise ArgumentError(f"there is no optimizer {name!r}; there are adam, sgd, momentum.")


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """bfloat16 where it is asked for, the weights themselves staying float32."""
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


def _kept(model: nn.Module, mask: npt.NDArray[np.bool_] | None) -> list[tuple[Tensor, Tensor]]:
    """Each trained parameter and its part of the mask, where that forbids anything."""
    if mask is None:
        return []
    places = flatten(model).layout.places
    found = []
    for name, parameter in model.named_parameters():
        allowed = mask[places[name]]
        if parameter.requires_grad and not allowed.all():
            part = torch.from_numpy(allowed.copy()).view(parameter.shape)
            found.append((parameter.detach(), part.to(parameter.device, parameter.dtype)))
    return found
