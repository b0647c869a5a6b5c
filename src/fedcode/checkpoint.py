"""A safetensors checkpoint to a model's file and back, with never the whole model in memory.

The checkpoint is read twice: once for the centres, once for the labels. Memory holds a few blocks of a million
weights, the labels once they are coded, and what is not clustered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from fedcode import safetensors_file
from fedcode.clustering import Labels, cluster
from fedcode.errors import WrongModelError
from fedcode.layout import Entry, Kind
from fedcode.model_file import CLUSTERS, Clustered, ModelFile, model_message
from fedcode.pieces import Parts, counted, joined
from fedcode.progress import Progress, silent
from fedcode.safetensors_file import Checkpoint
from fedcode.state import Vector
from fedcode.stored import Stored
from fedcode.wire import Message


def pack(
    checkpoint: Checkpoint, k: int | None = None, *, bits: float | None = None, progress: Progress = silent
) -> Message:
    """The message that `encode` makes of the model in a checkpoint."""
    stored = Stored(checkpoint)
    layout = stored.layout
    weights = None
    if layout.weights:
        fit = _fit(stored, CLUSTERS if k is None and bits is None else k, bits, progress)
        weights = Clustered(fit.centers, ((block, fit.labels(block)) for block in stored.weights()))
    return model_message(layout, weights, stored.statistics, stored.counters, progress)


def unpack(file: ModelFile, out: BinaryIO, progress: Progress = silent) -> None:
    """Write the model in a file as one safetensors checkpoint, each tensor in its dtype."""
    layout = file.layout
    weights = Parts(counted(file.weights(), "writing", layout.weights, progress))
    others = {Kind.COUNTER: Parts(iter([file.counters])), Kind.STATISTIC: Parts(iter([file.statistics]))}

    def values(entry: Entry) -> Iterator[npt.NDArray[Any]]:
        if entry.kind == Kind.WEIGHT:
            return weights.take(entry.size)
        return others[Kind.COUNTER if entry.kind == Kind.COUNTER else Kind.STATISTIC].take(entry.size)

    ordered = sorted(layout.entries, key=lambda entry: (entry.kind == Kind.COUNTER, layout.places[entry.name].start))
    safetensors_file.write(out, ordered, values)
    weights.end()


def error_against(file: ModelFile, checkpoint: Checkpoint, progress: Progress = silent) -> float:
    """The squared error of a file's weights against a checkpoint's, as a share of the checkpoint's energy."""
    stored = Stored(checkpoint)
    ours, theirs = ({entry.name: entry.shape for entry, _ in layout.tensors} for layout in (file.layout, stored.layout))
    if ours != theirs:
        name = min(set(ours.items()) ^ set(theirs.items()))[0]
        raise WrongModelError(
            f"the checkpoint is of another model: {name!r} is {theirs.get(name, 'missing')} there and "
            f"{ours.get(name, 'missing')} in the file."
        )
    energy = error = 0.0
    originals = stored.weights(entry for entry, _ in file.layout.tensors)
    kept = counted(file.weights(), "comparing", file.layout.weights, progress)
    for original, values in zip(originals, kept, strict=True):
        wide = original.astype(np.float64)
        energy += float(np.square(wide).sum())
        error += float(np.square(wide - values).sum())
    return error / energy if energy else 0.0


@dataclass(frozen=True, eq=False)
class _Fit:
    """Centres, and the thresholds between them: a value's label is how many thresholds lie strictly below it."""

    centers: Vector
    thresholds: npt.NDArray[np.float64]

    def labels(self, values: Vector) -> Labels:
        dtype = np.uint8 if len(self.centers) <= 256 else np.uint16
        return np.searchsorted(self.thresholds, values).astype(dtype)


def _fit(stored: Stored, k: int | None, bits: float | None, progress: Progress) -> _Fit:
    total = stored.layout.weights
    vector = joined(counted(stored.weights(), "reading", total, progress), total, np.float32)
    codebook = cluster(vector, k, bits=bits)
    wide = codebook.centers.astype(np.float64)
    return _Fit(codebook.centers, (wide[:-1] + wide[1:]) / 2)
