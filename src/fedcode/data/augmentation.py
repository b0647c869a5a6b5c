"""What is done to training images at random, on bytes and on whichever device they are."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

PADDING = 4


def crop_and_flip(batch: Tensor, generator: torch.Generator) -> Tensor:
    """Each image (n, channels, height, width) padded by 4 zeros, cut back at random, mirrored every second time.

    One draw an image says which of the 9 x 9 cuts and whether mirrored, one gather moves the pixels. The draw is
    made where the generator is, so that a generator on the CPU gives the same images on any device.

    >>> images = torch.arange(1, 17, dtype=torch.uint8).view(1, 1, 4, 4)
    >>> crop_and_flip(images, torch.Generator().manual_seed(7)).shape
    torch.Size([1, 1, 4, 4])

    Reference: He et al., Deep Residual Learning for Image Recognition, CVPR 2016, section 4.2.
    """
    images, channels, height, width = batch.shape
    cuts = 2 * PADDING + 1
    drawn = torch.randint(cuts * cuts * 2, (images, 1), generator=generator, device=generator.device)
    return _cut(batch, drawn.to(batch.device)).view(images, channels, height, width)


def _cut(batch: Tensor, drawn: Tensor) -> Tensor:
    """The cut that `drawn` (n, 1) names: down * 18 + right * 2 + mirrored."""
    images, channels, height, width = batch.shape
    cuts = 2 * PADDING + 1
    down, right, mirrored = drawn // (2 * cuts), drawn // 2 % cuts, drawn % 2 == 1
    rows = torch.arange(height, device=batch.device) + down
    columns = torch.arange(width, device=batch.device).expand(images, width)
    columns = torch.where(mirrored, columns.flip(1), columns) + right
    pixels = rows.unsqueeze(2) * (width + 2 * PADDING) + columns.unsqueeze(1)
    padded = functional.pad(batch, (PADDING,) * 4).flatten(2)
    return padded.gather(2, pixels.view(images, 1, height * width).expand(images, channels, height * width))
