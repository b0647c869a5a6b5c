"""The input of YAMNet: 96 frames of 64 log-mel bands for each second of sound, with torch alone.

Reference: Plakal and Ellis, YAMNet, tensorflow/models, 2020 (its parameters and feature documentation).
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

RATE = 16_000  # samples a second
WINDOW = 400  # 25 ms
HOP = 160  # 10 ms
FOURIER = 512
BANDS = 64
LOWEST, HIGHEST = 125.0, 7500.0  # Hz
OFFSET = 0.001  # keeps the logarithm of silence finite
FRAMES = 96
SAMPLES = WINDOW + (FRAMES - 1) * HOP  # what 96 frames see: 0.975 s


def log_mel(waves: Tensor) -> Tensor:
    """Log-mel spectra of sounds at 16 kHz: (n, samples) from -1 to 1 in, (n, frames, 64) out.

    Each 10 ms the magnitudes of the Fourier transform of 25 ms under a periodic Hann window, summed into 64
    triangular bands that are equally wide in mel from 125 to 7500 Hz, then log(x + 0.001). A frame begins where its
    samples do; nothing is padded.

    >>> log_mel(torch.zeros(1, 16_000)).shape
    torch.Size([1, 98, 64])
    """
    frames = waves.unfold(-1, WINDOW, HOP) * torch.hann_window(WINDOW, dtype=waves.dtype, device=waves.device)
    magnitudes = torch.fft.rfft(frames, FOURIER).abs()
    spectra: Tensor = (magnitudes @ bands().to(waves) + OFFSET).log()
    return spectra


def patches(waves: Tensor) -> Tensor:
    """One patch (1, 96, 64) for each sound, from its first 0.975 s; a shorter one is followed by silence.

    >>> patches(torch.zeros(2, 9_000)).shape
    torch.Size([2, 1, 96, 64])
    """
    short = max(0, SAMPLES - waves.shape[-1])
    return log_mel(functional.pad(waves[..., :SAMPLES], (0, short))).unsqueeze(1)


@cache
def bands() -> Tensor:
    """The weight of each Fourier bin in each band, (257, 64): triangles on the mel scale, of height one."""
    lowest, highest = _mel(torch.tensor([LOWEST, HIGHEST], dtype=torch.float64))
    edges = lowest + (highest - lowest) * torch.arange(BANDS + 2, dtype=torch.float64) / (BANDS + 1)
    bins = _mel(torch.arange(FOURIER // 2 + 1, dtype=torch.float64) * RATE / FOURIER).unsqueeze(1)
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


def _mel(hertz: Tensor) -> Tensor:
    """The mel scale as HTK has it."""
    return 1127 * torch.log1p(hertz / 700)
