"""A small convolutional network for 8 x 8 digits: the demo's."""

from __future__ import annotations

from torch import Tensor, nn


class Digits(nn.Module):
    """Three convolutions with batch normalisation and one linear layer.

    Input (n, 1, 8, 8), output (n, classes) logits.
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(32)
        self.conv3 = nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False)
        self.norm3 = nn.BatchNorm2d(64)
        self.linear = nn.Linear(64 * 2 * 2, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch."""
        x = self.norm1(self.conv1(x)).relu()
        x = self.norm2(self.conv2(x)).relu()
        x = self.norm3(self.conv3(x)).relu()
        logits: Tensor = self.linear(x.flatten(1))
        return logits


def digits(classes: int = 10) -> Digits:
    """The demo's network: small enough for thousands of training steps a minute on one core.

    >>> sum(p.numel() for p in digits().parameters())
    25978
    """
    return Digits(classes)
