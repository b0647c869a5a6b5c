"""What a run trains, and on what: by name, or what the caller brought."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedcode import data, models
from fedcode.data import Dataset
from fedcode.errors import ArgumentError
from fedcode.simulation import draws
from fedcode.simulation.config import Config
from fedcode.simulation.training import Loss

TEST_EVERY = 5  # where no test examples are given, every fifth example is one


@dataclass(frozen=True)
class Given:
    """What is trained on, who makes a model, and the loss (None: the usual one). It crosses to worker processes."""

    dataset: Dataset
    make: Callable[[], nn.Module]
    loss: Loss | None = None


def given(config: Config, own_data: Any = None, own_model: Any = None, loss: Loss | None = None) -> Given:
    """The data set and the network of a run.

    own_data: a Dataset, two arrays (inputs, labels) or four (with test inputs and labels), a torch Dataset or two,
    or a function that returns one of these. own_model: a Module, or a function that makes one.

    >>> found = given(Config(), (np.zeros((10, 4), np.float32), np.arange(10) % 2), nn.Linear(4, 2))
    >>> found.dataset.examples, found.dataset.classes, len(found.dataset.test_labels)
    (8, 2, 2)
    """
    _check_device(config.device)
    dataset = _named_data(config) if own_data is None else own_dataset(own_data)
    return Given(draws.subset(config, dataset), _maker(config, dataset, own_model), loss)


def first_model(config: Config, found: Given) -> nn.Module:
    """The network with its first weights, which the seed decides unless they were brought."""
    with draws.seeded("weights", config.seed):
        return found.make()


def _check_device(name: str) -> None:
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # which of them depends on the device
        why = str(error).split("\n")[0]
        raise ArgumentError(f"the device {name!r} cannot be used here: {why}") from error


def _named_data(config: Config) -> Dataset:
    if config.dataset == "digits":
        return data.digits()
    if config.dataset == "own":
        raise ArgumentError('dataset "own" needs data: simulate(..., data=(inputs, labels)).')
    load = {"cifar10": data.cifar10, "cifar100": data.cifar100, "speechcommands": data.speechcommands}
    return load[config.dataset](config.data_dir)


@dataclass(frozen=True)
class Named:
    """Makes a network of `fedcode.models`."""

    network: str
    classes: int

    def __call__(self) -> nn.Module:
        made: nn.Module = getattr(models, self.network)(self.classes)
        return made


@dataclass(frozen=True)
class Copied:
    """Makes copies of a network that the caller brought."""

    module: nn.Module

    def __call__(self) -> nn.Module:
        return copy.deepcopy(self.module)


def _maker(config: Config, dataset: Dataset, own: Any) -> Callable[[], nn.Module]:
    if isinstance(own, nn.Module):
        return Copied(own)
    if callable(own):
        return own  # type: ignore[no-any-return]
    if own is not None:
        raise ArgumentError(f"model= is a torch Module or a function that makes one; got {type(own).__name__}.")
    if config.network == "own":
        raise ArgumentError("own data needs a network: simulate(..., model=my_module), or network=, a name.")
    if not dataset.classes:
        raise ArgumentError(f"the network {config.network} tells classes apart; these labels are none. Give model=.")
    return Named(config.network, dataset.classes)


def own_dataset(own: Any) -> Dataset:
    """A Dataset out of whatever the caller brought."""
    if isinstance(own, Dataset):
        return own
    if callable(own) and not isinstance(own, torch.utils.data.Dataset):
        return own_dataset(own())
    if isinstance(own, tuple | list) and len(own) == 2 and isinstance(own[0], torch.utils.data.Dataset):
        return _dataset(*_stacked(own[0]), *_stacked(own[1]))
    if isinstance(own, torch.utils.data.Dataset):
        return _split(*_stacked(own))
    if isinstance(own, tuple | list) and len(own) in (2, 4):
        arrays = [_tensor(part) for part in own]
        for part, array in zip(own, arrays, strict=True):
            if not array.dim():
                raise ArgumentError(f"data= takes arrays, the first axis the example: got one number, {part!r}.")
        return _split(*arrays) if len(arrays) == 2 else _dataset(*arrays)
    raise ArgumentError(
        "data= takes a Dataset, two arrays (inputs, labels), four (and test inputs, test labels), a torch Dataset or "
        f"two, or a function that returns one of these; got {type(own).__name__}."
    )


def _tensor(part: Any) -> Tensor:
    if isinstance(part, Tensor):
        return part.detach()
    try:
        array = np.array(part)
        found = torch.from_numpy(array.astype(np.float32) if array.dtype == np.float64 else array)
    except (TypeError, ValueError) as error:  # objects and words; rows of different lengths
        raise ArgumentError(
            "data= takes arrays of numbers, all examples of one shape, the first axis the example: "
            f"got {type(part).__name__}, which is none ({str(error).splitlines()[0]})"
        ) from error
    return found


def _stacked(examples: Any) -> tuple[Tensor, Tensor]:
    """A torch Dataset read once, example by example."""
    pairs = [examples[index] for index in range(len(examples))]
    if not pairs:
        raise ArgumentError("the torch Dataset is empty.")
    try:
        inputs = torch.stack([torch.as_tensor(one) for one, _ in pairs])
        return inputs, torch.stack([torch.as_tensor(label) for _, label in pairs])
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(
            "the torch Dataset must give pairs (input, label) of numbers, all inputs of one shape: "
            f"{str(error).splitlines()[0]}"
        ) from error


def _split(inputs: Tensor, labels: Tensor) -> Dataset:
    if len(inputs) != len(labels):
        raise ArgumentError(f"{len(inputs)} inputs and {len(labels)} labels; give one label each.")
    test = torch.zeros(len(labels), dtype=torch.bool)
    test[TEST_EVERY - 1 :: TEST_EVERY] = True
    return _dataset(inputs[~test], labels[~test], inputs[test], labels[test])


def _dataset(inputs: Tensor, labels: Tensor, test_inputs: Tensor, test_labels: Tensor) -> Dataset:
    classes = 0
    if not labels.is_floating_point():
        if labels.dim() != 1:
            raise ArgumentError(f"labels that are classes have one dimension; got shape {tuple(labels.shape)}.")
        labels, test_labels = labels.long(), test_labels.long()
        classes = 1 + max(int(part.max()) if len(part) else 0 for part in (labels, test_labels))
    return Dataset("own", inputs, labels, test_inputs, test_labels, classes)
