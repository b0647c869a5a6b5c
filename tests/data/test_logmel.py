"""Log-mel features against librosa's Fourier transform and mel scale, and against sums written out."""

from __future__ import annotations

import librosa
import numpy as np
import pytest
import torch

from fedcode.data import logmel


def by_librosa(wave: np.ndarray) -> np.ndarray:
    """The same features with librosa's transform and scale, and numpy's interpolation for the triangles."""
    # librosa centres the window of 400 in its 512 samples; 56 more on both sides make frames begin alike
    padded = np.pad(wave.astype(np.float64), 56)
    spectrum = np.abs(librosa.stft(padded, n_fft=512, win_length=400, hop_length=160, window="hann", center=False))
    edges = librosa.mel_frequencies(66, fmin=125, fmax=7500, htk=True)
    points = librosa.hz_to_mel(edges, htk=True)
    bins = librosa.hz_to_mel(np.arange(257) * 16_000 / 512, htk=True)
    bands = [np.interp(bins, points[i : i + 3], [0, 1, 0]) for i in range(64)]
    return np.asarray(np.log(np.array(bands) @ spectrum + 0.001).T)


@pytest.mark.parametrize("kind", ["noise", "tone", "sweep", "click", "silence"])
def test_features_agree_with_librosa(kind: str) -> None:
    time = np.arange(16_000) / 16_000
    wave = {
        "noise": np.random.default_rng(0).normal(0, 0.1, 16_000),
        "tone": 0.5 * np.sin(2 * np.pi * 1000 * time),
        "sweep": 0.3 * np.sin(2 * np.pi * (100 + 3000 * time) * time),
        "click": (np.arange(16_000) == 5000).astype(float),
        "silence": np.zeros(16_000),
    }[kind]
    theirs = by_librosa(wave)
    ours = logmel.log_mel(torch.from_numpy(wave)[None])[0].numpy()
    assert ours.shape == (98, 64)
    np.testing.assert_allclose(ours, theirs[: len(ours)], rtol=0, atol=1e-6)
    # single precision rounds to a share of the loudest bin, so that is where it is compared
    single = logmel.log_mel(torch.from_numpy(wave).float()[None])[0].numpy()
    np.testing.assert_allclose(np.exp(single), np.exp(ours), rtol=1e-4, atol=1e-6 * np.exp(ours).max())


def test_one_frame_written_out() -> None:
    wave = np.random.default_rng(1).normal(0, 0.2, 400)
    n = np.arange(400)
    windowed = wave * (0.5 - 0.5 * np.cos(2 * np.pi * n / 400))
    band = 20
    mel = [1127 * np.log(1 + hertz / 700) for hertz in (125, 7500)]
    left, centre, right = (mel[0] + (mel[1] - mel[0]) * (band + i) / 65 for i in range(3))
    total = 0.0
    for k in range(257):
        at = 1127 * np.log(1 + k * 31.25 / 700)
        weight = max(0.0, min((at - left) / (centre - left), (right - at) / (right - centre)))
        total += weight * abs((windowed * np.exp(-2j * np.pi * k * n / 512)).sum())
    ours = logmel.log_mel(torch.from_numpy(wave)[None])
    assert ours[0, 0, band].item() == pytest.approx(np.log(total + 0.001), abs=1e-9)


def test_a_tone_lights_up_its_own_band() -> None:
    time = torch.arange(16_000) / 16_000
    for hertz in (300.0, 1000.0, 5000.0):
        spectra = logmel.log_mel(torch.sin(2 * torch.pi * hertz * time)[None])[0]
        low, high, at = (1127 * np.log(1 + f / 700) for f in (125, 7500, hertz))
        expected = (at - low) / (high - low) * 65 - 1
        assert abs(spectra.mean(0).argmax().item() - expected) <= 1


def test_silence_is_the_logarithm_of_the_offset() -> None:
    torch.testing.assert_close(logmel.patches(torch.zeros(1, 16_000)), torch.full((1, 1, 96, 64), np.log(0.001)))


def test_a_short_sound_is_followed_by_silence_and_a_long_one_cut() -> None:
    wave = torch.randn(1, 40_000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(logmel.patches(wave), logmel.patches(wave[:, :15_600]))
    short = logmel.patches(wave[:, :8_000])
    assert torch.equal(short[:, :, :48], logmel.patches(wave)[:, :, :48])
    torch.testing.assert_close(short[:, :, 50:], torch.full((1, 1, 46, 64), np.log(0.001)))
