"""CIFAR-10 and CIFAR-100 from their official binary archives, unpacked or not. No pickle is ever read.

Reference: Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedcode.data.archives import members
from fedcode.data.augmentation import crop_and_flip
from fedcode.data.dataset import Dataset, Standardise
from fedcode.data.places import find, missing, remedy
from fedcode.errors import DataError

PIXELS = 3 * 32 * 32
LARGEST = 200_000 * (PIXELS + 2)  # bytes of one file: what says more is none of these archives


@dataclass(frozen=True)
class Layout:
    """What an archive holds: files of records, each a few label bytes (the last one counts) and 3 x 32 x 32 pixels."""

    title: str
    name: str
    folder: str
    archive: str
    train: tuple[str, ...]
    test: str
    label_bytes: int
    classes: int
    # of the training pixels, channel by channel
    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]


CIFAR10 = Layout(
    title="CIFAR-10",
    name="cifar10",
    folder="cifar-10-batches-bin",
    archive="cifar-10-binary.tar.gz",
    train=tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
    test="test_batch.bin",
    label_bytes=1,
    classes=10,
    mean=(0.49140, 0.48216, 0.44653),
    deviation=(0.24703, 0.24349, 0.26159),
)
CIFAR100 = Layout(
    title="CIFAR-100",
    name="cifar100",
    folder="cifar-100-binary",
    archive="cifar-100-binary.tar.gz",
    train=("train.bin",),
    test="test.bin",
    label_bytes=2,  # the coarse class, then the fine one
    classes=100,
    mean=(0.50708, 0.48655, 0.44092),
    deviation=(0.26733, 0.25644, 0.27615),
)


def cifar10(data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """50,000 training and 10,000 test images of 10 classes, inputs (n, 3, 32, 32) kept as bytes.

    Batches come out standardised; training batches are cropped and mirrored at random where a generator is given.
    `data_dir` holds `cifar-10-batches-bin/` or `cifar-10-binary.tar.gz`, or is one of them; without it
    the environment's FEDCODE_DATA and the cache are looked through. DataError says what is missing or damaged.
    """
    return _load(CIFAR10, data_dir)


def cifar100(data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """As `cifar10`, with the 100 fine classes: `cifar-100-binary/` or `cifar-100-binary.tar.gz`."""
    return _load(CIFAR100, data_dir)


def _load(layout: Layout, data_dir: str | os.PathLike[str] | None) -> Dataset:
    names = (layout.folder, layout.archive)
    place = find(names, data_dir)
    if place is None:
        raise missing(layout.title, names, layout.name, data_dir)
    wanted = (*layout.train, layout.test)
    files = _from_folder(layout, place, wanted) if place.is_dir() else _from_archive(layout, place, wanted)
    counts = [_records(layout, place, name, files[name]) for name in wanted]
    if len(set(counts[:-1])) > 1:
        raise DataError(
            f"{place} is damaged: {', '.join(layout.train)} must be equally long, they hold {counts[:-1]} images. "
            f"{remedy(layout.name)}"
        )
    train_inputs, train_labels = _images(layout, place, {name: files[name] for name in layout.train})
    test_inputs, test_labels = _images(layout, place, {layout.test: files[layout.test]})
    return Dataset(
        layout.name,
        train_inputs,
        train_labels,
        test_inputs,
        test_labels,
        classes=layout.classes,
        augment=crop_and_flip,
        prepare=Standardise(layout.mean, layout.deviation),
    )


def _from_folder(layout: Layout, folder: Path, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    for name in wanted:
        if not (folder / name).is_file():
            raise DataError(f"{folder / name} is missing. {remedy(layout.name)}")
    return {name: np.fromfile(folder / name, np.uint8) for name in wanted}


def _from_archive(layout: Layout, archive: Path, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The wanted files straight from the archive: only ordinary members of exactly those names are looked at."""
    files: dict[str, np.ndarray] = {}
    with members(archive) as (tar, ordinary):
        for path, member in ordinary:
            name = path.name
            if path.parts[-2:] != (layout.folder, name) or name not in wanted or name in files:
                continue
            content = tar.extractfile(member) if member.size <= LARGEST else None
            if content is None:
                raise DataError(f"{archive} is damaged: {member.name} has {member.size} bytes.")
            files[name] = np.frombuffer(content.read(), np.uint8)
    for name in wanted:
        if name not in files:
            raise DataError(f"{archive} is damaged: {layout.folder}/{name} is not in it. {remedy(layout.name)}")
    return files


def _records(layout: Layout, place: Path, name: str, content: np.ndarray) -> int:
    """How many records a file holds; they must be whole."""
    count, rest = divmod(len(content), layout.label_bytes + PIXELS)
    if rest or not count:
        raise DataError(
            f"{name} in {place} is damaged: {len(content)} bytes are no whole number of records of "
            f"{layout.label_bytes + PIXELS} bytes. {remedy(layout.name)}"
        )
    return count


def _images(layout: Layout, place: Path, files: dict[str, np.ndarray]) -> tuple[Tensor, Tensor]:
    records = [content.reshape(-1, layout.label_bytes + PIXELS) for content in files.values()]
    for name, of_file in zip(files, records, strict=True):
        most = of_file[:, layout.label_bytes - 1].max()
        if most >= layout.classes:
            raise DataError(
                f"{name} in {place} is damaged: its labels reach {most}, those of {layout.title} "
                f"{layout.classes - 1}. {remedy(layout.name)}"
            )
    labels = np.concatenate([of_file[:, layout.label_bytes - 1] for of_file in records])
    inputs = np.concatenate([of_file[:, layout.label_bytes :] for of_file in records])
    return torch.from_numpy(inputs.reshape(-1, 3, 32, 32)), torch.from_numpy(labels.astype(np.int64))
