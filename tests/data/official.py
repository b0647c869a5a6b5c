"""Tiny files in the official formats, as the archives have them."""

from __future__ import annotations

import tarfile
import wave
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
    """A .tar.gz of one member's header with these settings."""
    info = tarfile.TarInfo()
    for name, value in settings.items():
        setattr(info, name, value)
    with tarfile.open(archive, "w:gz") as tar:
        tar.addfile(info)
    return archive


WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")


def wav(path: Path, samples: np.ndarray, rate: int = 16_000, width: int = 2, channels: int = 1) -> Path:
    """A WAV file, of the archive's kind unless told otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return path


def speech(place: Path, version: str = "v0.02", clips: int = 3) -> Path:
    """The two official folders with `clips` clips of each word, which differ; clip 0 is held out by a list."""
    rng = np.random.default_rng(0)
    train, test = place / f"speech_commands_{version}", place / "speech_commands_test_set_v0.02"
    for word in (*WORDS, "bed", "cat", "zero"):
        for i in range(clips):
            wav(train / word / f"{i:08x}_nohash_0.wav", rng.integers(-3000, 3000, 16_000 - 500 * i).astype("<i2"))
    for name in ("hum", "hiss"):
        wav(train / "_background_noise_" / f"{name}.wav", rng.integers(-9000, 9000, 40_000).astype("<i2"))
    (train / "_background_noise_" / "README.md").write_text("noise")
    (train / "validation_list.txt").write_text("".join(f"{word}/00000000_nohash_0.wav\n" for word in WORDS[:5]))
    (train / "testing_list.txt").write_text(
        "".join(f"{word}/00000000_nohash_0.wav\n" for word in (*WORDS[5:], "bed", "cat", "zero"))
    )
    for name in (*WORDS, "_unknown_", "_silence_"):
        for i in range(2):
            wav(test / name / f"{i}.wav", rng.integers(-3000, 3000, 16_000).astype("<i2"))
    return train
