"""ResNet-20 for 32 x 32 images, with the shortcuts that have no parameters (option A).

Reference: He et al., Deep Residual Learning for Image Recognition, CVPR 2016, section 4.2.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """Two 3 x 3 convolutions around a shortcut; `stride` 2 halves the image and widens it to `channels`."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.stride = stride
        self.widening = channels - inputs

    def forward(self, x: Tensor) -> Tensor:
        """The block's output for a batch."""
        y: Tensor = self.norm1(self.conv1(x)).relu()
        y = self.norm2(self.conv2(y))
        return (y + self.shortcut(x)).relu()

    def shortcut(self, x: Tensor) -> Tensor:
        """Every second pixel, and channels of zeros on both sides of what is there."""
        if self.stride == 1 and self.widening == 0:
            return x
        before = self.widening // 2
        x = x[:, :, :: self.stride, :: self.stride]
        return functional.pad(x, (0, 0, 0, 0, before, self.widening - before))


class ResNet20(nn.Module):
    """One convolution, three stages of three blocks with 16, 32 and 64 channels, mean over the image, linear.

    Input (n, 3, 32, 32), output (n, classes) logits.
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.stages = nn.Sequential(*(_stage(*widths) for widths in ((16, 16), (16, 32), (32, 64))))
        self.linear = nn.Linear(64, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch."""
        x = self.norm(self.conv(x)).relu()
        x = self.stages(x)
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits


def _stage(inputs: int, channels: int) -> nn.Sequential:
    stride = 1 if inputs == channels else 2
    return nn.Sequential(Block(inputs, channels, stride), Block(channels, channels, 1), Block(channels, channels, 1))


def resnet20(classes: int = 10) -> ResNet20:
    """ResNet-20 with shortcuts that have no parameters.

    >>> [sum(p.numel() for p in resnet20(classes).parameters()) for classes in (10, 100)]
    [269722, 275572]
    """
    return ResNet20(classes)
