"""A safetensors checkpoint to a model's file and back, with never the whole model in memory.

The checkpoint is read several times: for the centres, and once for the labels. Memory holds a few blocks of a
million weights, the labels once they are coded, and what is not clustered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from fedcode import safetensors_file
from fedcode.clustering import fit
from fedcode.errors import WrongModelError
from fedcode.layout import Entry, Kind
from fedcode.model_file import CLUSTERS, ClusteredWeights, ModelFile, model_message
from fedcode.pieces import Parts, counted
from fedcode.progress import Progress, silent
from fedcode.row import Row
from fedcode.safetensors_file import Checkpoint
from fedcode.stored import Stored
from fedcode.streamed import streamed
from fedcode.wire import Message


def pack(
    checkpoint: Checkpoint, k: int | None = None, *, bits: float | None = None, progress: Progress = silent
) -> Message:
    """The message that `encode` makes of the model in a checkpoint."""
    stored = Stored(checkpoint)
    layout = stored.layout
    weights = None
    if layout.weights:
        row = streamed(lambda: counted(stored.weights(), "reading", layout.weights, progress), layout.weights)
        rule = fit(row, CLUSTERS if k is None and bits is None else k, bits=bits)
        weights = ClusteredWeights(rule.centers, ((block, rule.labels(Row(block))) for block in stored.weights()))
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
