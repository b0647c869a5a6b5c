"""Tiny files in the official formats, as the archives have them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np

CIFAR10 = ("cifar-10-batches-bin", (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"))
CIFAR100 = ("cifar-100-binary", ("train.bin", "test.bin"))


def records(seed: int, count: int, classes: int, coarse: bool = False) -> bytes:
    """CIFAR records: the label bytes, then 3 planes of 32 x 32."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count, dtype=np.uint8)[:, None] % classes
    planes = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
    return np.hstack([labels[:, :0] if not coarse else labels // 5, labels, planes]).astype(np.uint8).tobytes()


def cifar(place: Path, name: str = "cifar10", count: int = 20) -> Path:
    """A folder as the official archive holds it, with `count` images a file."""
    folder, files = CIFAR10 if name == "cifar10" else CIFAR100
    classes = 10 if name == "cifar10" else 100
    (place / folder).mkdir(parents=True)
    for seed, file in enumerate(files):
        (place / folder / file).write_bytes(records(seed, count, classes, coarse=name == "cifar100"))
    return place / folder


def pack(folder: Path, archive: Path, inside: str | None = None) -> Path:
    """A .tar.gz of a folder under its own name, or another."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, inside if inside is not None else folder.name)
    return archive


def member(archive: Path, **settings: object) -> Path:
    """A .tar.gz of one member with these settings and no content."""
    info = tarfile.TarInfo()
    for name, value in settings.items():
        setattr(info, name, value)
    with tarfile.open(archive, "w:gz") as tar:
        tar.addfile(info, io.BytesIO(bytes(info.size)))
    return archive
