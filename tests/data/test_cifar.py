from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from fedcode import data
from fedcode.errors import DataError
from tests.data.official import cifar, member, pack, records


@pytest.mark.parametrize(("name", "classes", "train"), [("cifar10", 10, 100), ("cifar100", 100, 20)])
@pytest.mark.parametrize("form", ["folder", "archive", "the folder itself", "the archive itself"])
def test_every_byte_is_where_the_format_says(tmp_path: Path, name: str, classes: int, train: int, form: str) -> None:
    folder = cifar(tmp_path / "made", name)
    archive = "cifar-10-binary.tar.gz" if name == "cifar10" else "cifar-100-binary.tar.gz"
    place = folder.parent
    if "archive" in form:
        place = tmp_path / "packed"
        place.mkdir()
        pack(folder, place / archive)
    if "itself" in form:
        place = folder if "folder" in form else place / archive
    loaded = getattr(data, name)(place)
    assert (loaded.examples, len(loaded.test_labels), loaded.classes) == (train, 20, classes)
    first = (folder / ("data_batch_1.bin" if name == "cifar10" else "train.bin")).read_bytes()
    labels = 1 if name == "cifar10" else 2
    third = first[2 * (3072 + labels) : 3 * (3072 + labels)]
    assert loaded.train_labels[2] == third[labels - 1]
    assert loaded.train_inputs.dtype == torch.uint8
    # plane by plane, row by row
    assert loaded.train_inputs[2, 1, 3, 5] == third[labels + 1024 + 3 * 32 + 5]
    test = (folder / ("test_batch.bin" if name == "cifar10" else "test.bin")).read_bytes()
    assert loaded.test_inputs[0].numpy().tobytes() == test[labels : labels + 3072]


def test_batches_follow_each_other_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = cifar(tmp_path)
    for i in range(1, 6):
        (folder / f"data_batch_{i}.bin").write_bytes((bytes([i]) * 3073) * 2)
    assert data.cifar10(tmp_path).labels.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_batches_are_standardised(tmp_path: Path) -> None:
    cifar(tmp_path)
    loaded = data.cifar10(tmp_path)
    inputs, _ = loaded.train([3])
    mean, deviation = np.array([0.49140, 0.48216, 0.44653]), np.array([0.24703, 0.24349, 0.26159])
    expected = (loaded.train_inputs[3].numpy() / 255.0 - mean[:, None, None]) / deviation[:, None, None]
    np.testing.assert_allclose(inputs[0].numpy(), expected, rtol=0, atol=1e-6)


def test_training_batches_are_augmented_and_test_batches_are_not(tmp_path: Path) -> None:
    cifar(tmp_path)
    loaded = data.cifar10(tmp_path)
    plain, _ = loaded.train(range(20))  # type: ignore[arg-type]
    varied, _ = loaded.train(list(range(20)), torch.Generator().manual_seed(0))
    assert not torch.equal(plain, varied)
    torch.testing.assert_close(loaded.test(0, 5)[0], loaded.prepare(loaded.test_inputs[:5]) if loaded.prepare else None)


def test_missing_data_says_where_it_was_looked_for_and_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="CIFAR-10 is not here") as caught:
        data.cifar10(tmp_path / "nowhere")
    for part in (f"{tmp_path}/nowhere (--data-dir)", "cifar-10-binary.tar.gz", "fedcode data get cifar10"):
        assert part in str(caught.value)
    monkeypatch.setenv("FEDCODE_DATA", str(tmp_path / "named"))
    with pytest.raises(DataError) as caught:
        data.cifar100()
    for part in (f"{tmp_path}/named (environment FEDCODE_DATA)", f"{tmp_path}/cache/fedcode (the cache)"):
        assert part in str(caught.value)


def test_the_environment_is_looked_through_before_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cifar(tmp_path / "cache/fedcode", count=3)
    assert data.cifar10().examples == 15
    cifar(tmp_path / "named", count=2)
    monkeypatch.setenv("FEDCODE_DATA", str(tmp_path / "named"))
    assert data.cifar10().examples == 10


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = cifar(tmp_path)
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_3\.bin is missing.*fedcode data get cifar10"):
        data.cifar10(tmp_path)
    with pytest.raises(DataError, match=r"data_batch_3\.bin is not in it"):
        data.cifar10(pack(folder, tmp_path / "cifar-10-binary.tar.gz"))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no whole number of records"),
        (records(0, 20, 10)[:-1], "no whole number of records"),
        (records(0, 19, 10), "must be equally long"),
        (records(0, 20, 11), "its labels reach 10"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, complaint: str) -> None:
    folder = cifar(tmp_path)
    (folder / "data_batch_2.bin").write_bytes(content)
    with pytest.raises(DataError, match=complaint) as caught:
        data.cifar10(tmp_path)
    assert "data_batch_2.bin" in str(caught.value)


@pytest.mark.parametrize("cut", [0, 10, 5000, -9])
def test_a_truncated_archive_is_named(tmp_path: Path, cut: int) -> None:
    archive = pack(cifar(tmp_path / "made"), tmp_path / "cifar-10-binary.tar.gz")
    archive.write_bytes(archive.read_bytes()[:cut])
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz (cannot be read|is damaged)"):
        data.cifar10(tmp_path)


def test_an_archive_with_one_changed_byte_is_named(tmp_path: Path) -> None:
    archive = pack(cifar(tmp_path / "made"), tmp_path / "cifar-10-binary.tar.gz")
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.write_bytes(content)
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz cannot be read"):
        data.cifar10(tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        {"type": tarfile.LNKTYPE, "linkname": "../secret"},
        {"type": tarfile.FIFOTYPE},
        {"type": tarfile.DIRTYPE},
    ],
)
def test_a_member_that_is_no_ordinary_file_is_never_followed(tmp_path: Path, settings: dict[str, object]) -> None:
    archive = member(tmp_path / "cifar-10-binary.tar.gz", name="cifar-10-batches-bin/data_batch_1.bin", **settings)
    with pytest.raises(DataError, match="is not in it"):
        data.cifar10(archive)


def test_an_absurdly_large_member_is_refused_before_it_is_read(tmp_path: Path) -> None:
    name = "cifar-10-batches-bin/data_batch_1.bin"
    archive = member(tmp_path / "cifar-10-binary.tar.gz", name=name, size=700_000_000)
    with pytest.raises(DataError, match="700000000 bytes"):
        data.cifar10(archive)
