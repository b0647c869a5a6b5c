from __future__ import annotations

import numpy as np
import pytest
import torch

from fedcode.data.augmentation import PADDING, _cut, crop_and_flip


def by_hand(image: np.ndarray, drawn: int) -> np.ndarray:
    """The cut of one image, slice by slice."""
    down, right, mirrored = drawn // 18, drawn // 2 % 9, drawn % 2
    padded = np.pad(image, ((0, 0), (PADDING, PADDING), (PADDING, PADDING)))
    cut = padded[:, down : down + image.shape[1], right : right + image.shape[2]]
    return cut[:, :, ::-1] if mirrored else cut


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 5, 7)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_every_cut_agrees_with_slices(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    drawn = torch.arange(9 * 9 * 2)
    images = torch.randint(1, 255, (len(drawn), *shape), generator=torch.Generator().manual_seed(0)).to(dtype)
    cut = _cut(images, drawn.unsqueeze(1)).view(images.shape)
    assert cut.dtype == dtype
    for i in range(len(drawn)):
        np.testing.assert_array_equal(cut[i].numpy(), by_hand(images[i].numpy(), i))


def test_every_cut_is_drawn_equally_often() -> None:
    # an image whose pixels are all different says which cut it is from
    image = torch.arange(1, 101, dtype=torch.int32).view(1, 1, 10, 10)
    images = 16200
    cut = crop_and_flip(image.expand(images, -1, -1, -1), torch.Generator().manual_seed(0)).flatten(1).numpy()
    kinds, counts = np.unique(cut, axis=0, return_counts=True)
    assert len(kinds) == 9 * 9 * 2
    # chi-squared with 161 degrees of freedom: mean 161, deviation 18
    assert abs(((counts - 100) ** 2 / 100).sum() - 161) < 4 * 18


def test_the_generator_alone_decides() -> None:
    images = torch.randint(0, 256, (50, 3, 32, 32), dtype=torch.uint8)
    once, again = (crop_and_flip(images, torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(once, again)
    assert not torch.equal(once, crop_and_flip(images, torch.Generator().manual_seed(5)))


def test_a_batch_of_none() -> None:
    assert crop_and_flip(torch.zeros(0, 3, 32, 32), torch.Generator()).shape == (0, 3, 32, 32)
