"""MobileNetV2 for 32 x 32 images: the published network with the first two halvings of the image left out.

Reference: Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR 2018, table 2.
The strides of the first convolution and of the 24-channel stage are 1, as is usual for CIFAR. No dropout: with it,
training would draw from torch's generator.
"""

from __future__ import annotations

from torch import Tensor, nn

# expansion, channels, blocks, stride of the first block
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),  # stride 2 on 224 x 224 images
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class Bottleneck(nn.Module):
    """Widen by `expansion`, filter each channel by itself, narrow without an activation; skip where shapes allow."""

    def __init__(self, inputs: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        layers = list(_conv(inputs, inner, kernel=1)) if expansion > 1 else []
        layers += _conv(inner, inner, kernel=3, stride=stride, groups=inner)
        layers += _conv(inner, channels, kernel=1)[:2]
        self.layers = nn.Sequential(*layers)
        self.skips = stride == 1 and inputs == channels

    def forward(self, x: Tensor) -> Tensor:
        """The block's output for a batch."""
        y: Tensor = self.layers(x)
        return x + y if self.skips else y


class MobileNetV2(nn.Module):
    """Seventeen bottlenecks between two plain convolutions, mean over the image, linear.

    Input (n, 3, 32, 32), output (n, classes) logits.
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = list(_conv(3, 32, kernel=3))  # stride 2 on 224 x 224 images
        inputs = 32
        for expansion, channels, blocks, first in STAGES:
            for block in range(blocks):
                layers.append(Bottleneck(inputs, channels, first if block == 0 else 1, expansion))
                inputs = channels
        layers += _conv(inputs, 1280, kernel=1)
        self.layers = nn.Sequential(*layers)
        self.linear = nn.Linear(1280, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
        nn.init.normal_(self.linear.weight, std=0.01)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch."""
        logits: Tensor = self.linear(self.layers(x).mean((2, 3)))
        return logits


def _conv(
    inputs: int, channels: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> tuple[nn.Module, nn.Module, nn.Module]:
    return (
        nn.Conv2d(inputs, channels, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU6(inplace=True),
    )


def mobilenetv2(classes: int = 10) -> MobileNetV2:
    """MobileNetV2 with strides for 32 x 32 images.

    >>> sum(p.numel() for p in mobilenetv2().parameters())
    2236682
    """
    return MobileNetV2(classes)
