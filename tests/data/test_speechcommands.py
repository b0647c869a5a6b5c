from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from fedcode import data
from fedcode.data import features, logmel, sound
from fedcode.data.speechcommands import CLASSES, _silences
from fedcode.errors import ArgumentError, DataError
from tests.data.official import WORDS, speech, wav


def counts(labels: torch.Tensor) -> list[int]:
    return torch.bincount(labels, minlength=12).tolist()


def patch_of(path: Path) -> torch.Tensor:
    """What a file must become, rounded as it is kept."""
    samples = torch.from_numpy(sound.read(path) / np.float32(32768))
    return logmel.patches(samples[None])[0].half().float()


@pytest.mark.parametrize("version", ["v0.01", "v0.02"])
def test_the_twelve_classes_and_the_lists(tmp_path: Path, version: str) -> None:
    train = speech(tmp_path, version)
    loaded = data.speechcommands(tmp_path, unknown=0.2, silence=0.1)
    assert ("_silence_", "_unknown_", *WORDS) == CLASSES
    # of three clips of each word the lists hold one out: 20 spoken, so 4 unknown and 2 silent ones
    assert counts(loaded.train_labels) == [2, 4] + [2] * 10
    assert counts(loaded.test_labels) == [2] * 12
    assert loaded.classes == 12
    assert loaded.shape == (1, 96, 64)
    inputs, labels = loaded.train([0, 1, 2])
    assert inputs.dtype == torch.float32
    assert [CLASSES[label] for label in labels] == ["yes", "yes", "no"]
    torch.testing.assert_close(inputs[1], patch_of(train / "yes" / "00000002_nohash_0.wav"), rtol=0, atol=0.01)
    unknown = loaded.train(torch.nonzero(loaded.train_labels == 1).flatten())[0]
    others = [patch_of(train / word / f"0000000{i}_nohash_0.wav") for word in ("bed", "cat", "zero") for i in (1, 2)]
    for one in unknown:  # none is one that a list holds out
        assert min((one - other).abs().max().item() for other in others) < 0.01


def test_the_seed_draws_unknown_words_and_silence(tmp_path: Path) -> None:
    speech(tmp_path, clips=6)
    once, other = (data.speechcommands(tmp_path, seed=seed, unknown=0.1, silence=0.3) for seed in (0, 1))
    for name in features_of(tmp_path):
        name.unlink()
    again = data.speechcommands(tmp_path, seed=0, unknown=0.1, silence=0.3)
    assert torch.equal(once.train_inputs, again.train_inputs)
    assert counts(once.train_labels) == counts(other.train_labels)
    for label, same in ((0, False), (1, False), (2, True)):
        of_class = [one.train_inputs[one.train_labels == label] for one in (once, other)]
        assert torch.equal(*of_class) == same


def test_silence_is_cut_from_the_noise_at_some_volume(tmp_path: Path) -> None:
    # in a ramp the slope of a cut says how loud it is and its height where it is from
    ramp = np.arange(-20_000, 20_000).astype("<i2")
    files = [wav(tmp_path / "up.wav", ramp), wav(tmp_path / "down.wav", -ramp)]
    cuts = np.stack(list(_silences(files, 60, seed=0)))
    slopes = (cuts[:, -1].astype(float) - cuts[:, 0]) / 15_999
    volumes, starts = abs(slopes), cuts[:, 0] / slopes + 20_000
    np.testing.assert_allclose(
        cuts,
        volumes[:, None] * np.sign(slopes)[:, None] * (starts[:, None] - 20_000 + np.arange(16_000)),
        rtol=0,
        atol=1.5,
    )
    assert (slopes > 0).any()
    assert (slopes < 0).any()
    assert 0 <= volumes.min() < 0.2 < 0.8 < volumes.max() <= 1
    assert -1 < starts[volumes > 0.1].min() < 8_000 < 16_000 < starts[volumes > 0.1].max() < 24_001


def features_of(place: Path) -> list[Path]:
    return sorted((place / features.FOLDER).glob("*.npy"))


def test_features_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = speech(tmp_path)
    first = data.speechcommands(tmp_path)
    assert len(features_of(tmp_path)) == 4
    assert not [path for path in (tmp_path / features.FOLDER).iterdir() if path.suffix != ".npy"]
    with monkeypatch.context() as patched:
        patched.setattr(features, "compute", lambda *_: pytest.fail("computed again"))
        again = data.speechcommands(tmp_path)
    assert torch.equal(first.train_inputs, again.train_inputs)
    assert torch.equal(first.test_inputs, again.test_inputs)
    # another sound under the same name is another key
    wav(train / "no" / "00000001_nohash_0.wav", np.zeros(15_000, np.int16))
    changed = data.speechcommands(tmp_path)
    assert not torch.equal(first.train_inputs, changed.train_inputs)


def test_features_that_are_not_whole_are_computed_again(tmp_path: Path) -> None:
    speech(tmp_path)
    first = data.speechcommands(tmp_path)
    for path, size in zip(features_of(tmp_path), (0, 10, 200, 3000), strict=True):
        path.write_bytes(path.read_bytes()[:size])
    again = data.speechcommands(tmp_path)
    assert torch.equal(first.train_inputs, again.train_inputs)
    assert torch.equal(first.test_inputs, again.test_inputs)


def test_without_a_place_for_features_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    speech(tmp_path)
    (tmp_path / features.FOLDER).write_text("in the way")
    with pytest.warns(UserWarning, match="could not be kept"):
        loaded = data.speechcommands(tmp_path)
    assert loaded.examples == 24
    # data that cannot be written beside goes to the cache
    (tmp_path / features.FOLDER).unlink()
    monkeypatch.setattr("os.access", lambda *_: False)
    data.speechcommands(tmp_path)
    assert len(features_of(tmp_path / "cache/fedcode")) == 4


def test_it_crosses_to_a_worker(tmp_path: Path) -> None:
    speech(tmp_path)
    loaded = data.speechcommands(tmp_path)
    copy = pickle.loads(pickle.dumps(loaded))
    assert torch.equal(copy.train([3])[0], loaded.train([3])[0])


@pytest.mark.parametrize(
    ("missing", "complaint"),
    [
        ("speech_commands_v0.02", "Speech Commands is not here"),
        ("speech_commands_test_set_v0.02", "test set is not here"),
        ("speech_commands_v0.02/stop", "stop is missing"),
        ("speech_commands_v0.02/_background_noise_", "_background_noise_ is missing"),
        ("speech_commands_v0.02/testing_list.txt", r"testing_list\.txt is missing"),
        ("speech_commands_test_set_v0.02/_silence_", "_silence_ is missing"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, missing: str, complaint: str) -> None:
    speech(tmp_path)
    path = tmp_path / missing
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(DataError, match=f"{complaint}.*fedcode data get speechcommands"):
        data.speechcommands(tmp_path)


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "rate", "stereo", "bytes"])
def test_a_damaged_clip_is_named(tmp_path: Path, damage: str) -> None:
    clip = speech(tmp_path) / "go" / "00000001_nohash_0.wav"
    silence = np.zeros(16_000, np.int16)
    if damage == "rate":
        wav(clip, silence, rate=8000)
    elif damage == "stereo":
        wav(clip, silence, channels=2)
    elif damage == "bytes":
        wav(clip, silence, width=1)
    else:
        clip.write_bytes({"empty": b"", "cut": clip.read_bytes()[:5000], "text": b"<html>not found</html>"}[damage])
    with pytest.raises(DataError, match=r"go/00000001_nohash_0\.wav"):
        data.speechcommands(tmp_path)
    assert not [path for path in features_of(tmp_path) if path.name.startswith("words")]


def test_wrong_shares_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="unknown must be"):
        data.speechcommands(tmp_path, unknown=-1)
