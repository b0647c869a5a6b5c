"""A data set in memory: training and test examples, and what is done to a batch on its way to the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from fedcode.errors import ArgumentError

Augment = Callable[[Tensor, torch.Generator], Tensor]
Prepare = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Standardise:
    """Bytes 0 to 255 into floats of about zero mean and unit variance, channel by channel of (n, channels, ...).

    >>> Standardise((0.5,), (0.25,))(torch.tensor([[[0, 255]]], dtype=torch.uint8))
    tensor([[[-2.,  2.]]])
    """

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __call__(self, batch: Tensor) -> Tensor:
        shape = (1, -1) + (1,) * (batch.dim() - 2)
        mean = torch.tensor([255 * mean for mean in self.mean], device=batch.device)
        scale = torch.tensor([1 / (255 * deviation) for deviation in self.deviation], device=batch.device)
        return (batch - mean.view(shape)) * scale.view(shape)


@dataclass(frozen=True, eq=False)  # whether tensors are equal is no yes or no
class Dataset:
    """Training and test examples as tensors, first axis the example.

    Inputs are kept as they are cheapest to keep (CIFAR as bytes). `augment(batch, generator)` works on training
    inputs in that form, then `prepare(batch)` makes what the network takes; either may be missing. `classes` is
    0 where the labels are no classes.

    >>> data = Dataset("two", torch.eye(4), torch.tensor([0, 1, 0, 1]), torch.eye(4), torch.zeros(4).long(), 2)
    >>> data.shape, data.examples
    ((4,), 4)
    >>> data.train([1, 2])
    (tensor([[0., 1., 0., 0.],
            [0., 0., 1., 0.]]), tensor([1, 0]))
    """

    name: str
    train_inputs: Tensor = field(repr=False)
    train_labels: Tensor = field(repr=False)
    test_inputs: Tensor = field(repr=False)
    test_labels: Tensor = field(repr=False)
    classes: int
    augment: Augment | None = None
    prepare: Prepare | None = None

    def __post_init__(self) -> None:
        for part, inputs, labels in (
            ("training", self.train_inputs, self.train_labels),
            ("test", self.test_inputs, self.test_labels),
        ):
            if len(inputs) != len(labels):
                raise ArgumentError(
                    f"{self.name}: {len(inputs)} {part} inputs and {len(labels)} labels; give one label each."
                )
            if self.classes and len(labels):
                least, most = int(labels.min()), int(labels.max())
                if least < 0 or most >= self.classes:
                    raise ArgumentError(
                        f"{self.name}: {part} labels must be 0 to {self.classes - 1}, got {least} to {most}."
                    )
        if self.train_inputs.shape[1:] != self.test_inputs.shape[1:]:
            raise ArgumentError(
                f"{self.name}: training inputs of shape {tuple(self.train_inputs.shape[1:])} and test inputs of "
                f"shape {tuple(self.test_inputs.shape[1:])}; give both one shape."
            )

    @property
    def examples(self) -> int:
        """How many training examples there are."""
        return len(self.train_labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input as the network takes it."""
        one = self.train_inputs[:1]
        return tuple((self.prepare(one) if self.prepare else one).shape[1:])

    @property
    def labels(self) -> np.ndarray:
        """The training labels, for `fedcode.data.partition`."""
        return self.train_labels.cpu().numpy()

    def train(
        self, indices: Tensor | np.ndarray | list[int], generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """A training batch, augmented where a generator is given and the set knows how."""
        chosen = torch.as_tensor(indices, dtype=torch.long, device=self.train_inputs.device)
        inputs = self.train_inputs[chosen]
        if generator is not None and self.augment is not None:
            inputs = self.augment(inputs, generator)
        return (self.prepare(inputs) if self.prepare else inputs), self.train_labels[chosen]

    def test(self, start: int = 0, stop: int | None = None) -> tuple[Tensor, Tensor]:
        """Test examples `start` to `stop` as a batch."""
        inputs = self.test_inputs[start:stop]
        return (self.prepare(inputs) if self.prepare else inputs), self.test_labels[start:stop]

    def to(self, device: torch.device | str) -> Dataset:
        """The same set with its tensors on another device."""
        return replace(
            self,
            train_inputs=self.train_inputs.to(device),
            train_labels=self.train_labels.to(device),
            test_inputs=self.test_inputs.to(device),
            test_labels=self.test_labels.to(device),
        )

    def subset(self, size: int | float, rng: np.random.Generator) -> Dataset:
        """A count (int) or a fraction (float) of the training examples, drawn by `rng`, and the whole test set.

        Class counts are left to chance. Examples keep their order.
        """
        count = size if isinstance(size, int) else round(size * self.examples)
        if not 0 < count <= self.examples:
            raise ArgumentError(
                f"{self.name} has {self.examples} training examples; {size} of them cannot be drawn. "
                "Give a count (an int) up to that, or a fraction (a float) above 0 and up to 1."
            )
        chosen = torch.from_numpy(np.sort(rng.choice(self.examples, count, replace=False)))
        chosen = chosen.to(self.train_inputs.device)
        return replace(self, train_inputs=self.train_inputs[chosen], train_labels=self.train_labels[chosen])
