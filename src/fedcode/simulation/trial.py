"""A trial before a run: a small batch through the network and the loss, so that what does not fit is said at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from fedcode.data import Dataset
from fedcode.errors import ArgumentError, FedcodeError
from fedcode.simulation import draws
from fedcode.simulation.config import OWN, Config
from fedcode.simulation.given import Given, first_model
from fedcode.simulation.job import one_thread
from fedcode.simulation.training import autocast, usual_loss

BATCH = 8  # examples at most

# The inputs that the networks of `fedcode.models` are made for; some of them take others too.
INPUTS = {"digits": (1, 8, 8), "resnet20": (3, 32, 32), "mobilenetv2": (3, 32, 32), "yamnet": (1, 96, 64)}


def check_fit(config: Config, found: Given) -> None:
    """Refuse a network that cannot take the data or whose outputs do not suit the labels. It changes nothing.

    >>> from fedcode.simulation.given import given
    >>> check_fit(Config(), given(Config()))
    >>> check_fit(Config(network="resnet20"), given(Config(network="resnet20")))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    fedcode.errors.ArgumentError: the network resnet20 cannot take digits: it is made for inputs of shape 3 x 32 x 32...
    """
    device = torch.device(config.device)
    data = _few(found.dataset, max(2, min(config.batch, BATCH))).to(device)
    model = first_model(config, found).to(device)
    with one_thread(), draws.seeded("trial", config.seed, device=device):  # so little is slower in several
        for training in (True, False):
            model.train(training)
            inputs, labels = data.train(list(range(data.examples)), torch.Generator()) if training else data.test()
            if not len(labels):
                continue
            with torch.set_grad_enabled(training), autocast(config.precision, device):
                try:
                    output = model(inputs)
                except FedcodeError:
                    raise
                except Exception as error:  # whatever a module's own code raises on such inputs
                    raise ArgumentError(_not_taken(config, inputs, error)) from error
                if found.loss is None:
                    _check_outputs(_named(config), output, labels, data.classes)
                try:
                    value = (found.loss or usual_loss(data))(output, labels)
                    if training:
                        value.backward()  # type: ignore[no-untyped-call]
                    elif data.classes:
                        output.argmax(1)  # the accuracy
                except Exception as error:
                    raise ArgumentError(
                        f"{_named(config)} cannot be trained with this loss: {_first_line(error)}. The loss is given "
                        f"outputs of shape {_shape(getattr(output, 'shape', ()))} and labels of shape "
                        f"{_shape(labels.shape)} ({labels.dtype}), and returns one number."
                    ) from error


def _check_outputs(network: str, output: object, labels: Tensor, classes: int) -> None:
    """What the usual losses would take amiss, or would take and make nonsense of."""
    if not isinstance(output, Tensor):
        raise ArgumentError(f"{network} returns {type(output).__name__}; a tensor is expected, or give a loss= for it.")
    shape = _shape(output.shape)
    if classes and (output.dim() != 2 or len(output) != len(labels) or output.shape[1] < classes):
        raise ArgumentError(
            f"{network} returns outputs of shape {shape} for {len(labels)} examples of {classes} classes; "
            f"{_shape((len(labels), classes))} is expected. Give its last layer {classes} outputs."
        )
    if not classes and output.shape != labels.shape:  # these would be spread over each other
        raise ArgumentError(
            f"{network} returns outputs of shape {shape} for labels of shape {_shape(labels.shape)}; the squared error "
            "takes both of one shape. Reshape one of them, or give a loss=."
        )


def _few(dataset: Dataset, count: int) -> Dataset:
    """The first examples; some of them again where there are fewer, as normalisation cannot work on one."""
    rows = [row % dataset.examples for row in range(count)]
    return replace(
        dataset,
        train_inputs=dataset.train_inputs[rows],
        train_labels=dataset.train_labels[rows],
        test_inputs=dataset.test_inputs[:count],
        test_labels=dataset.test_labels[:count],
    )


def _not_taken(config: Config, inputs: Tensor, error: Exception) -> str:
    data = "your data" if config.dataset == OWN else config.dataset
    why, got = _first_line(error), _shape(inputs.shape[1:])
    if config.network not in INPUTS:
        batch = f"batches of shape {_shape(inputs.shape)} ({inputs.dtype}), the first axis the example"
        return f"your network cannot take {data}: {why}. It is given {batch}."
    fitting = [name for name, shape in INPUTS.items() if shape == inputs.shape[1:]]
    return (
        f"the network {config.network} cannot take {data}: it is made for inputs of shape "
        f"{_shape(INPUTS[config.network])}, and these are of shape {got} ({inputs.dtype}). "
        + (f"The network for these is {' or '.join(fitting)}." if fitting else f"Bring a network for these. ({why})")
    )


def _named(config: Config) -> str:
    return "your network" if config.network == OWN else f"the network {config.network}"


def _shape(shape: Iterable[int]) -> str:
    return " x ".join(map(str, shape)) or "()"


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().split("\n")[0].rstrip(".:")
