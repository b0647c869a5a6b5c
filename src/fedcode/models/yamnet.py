"""YAMNet: MobileNetV1 on patches of a log-mel spectrogram.

Reference: Plakal and Ellis, YAMNet, tensorflow/models, 2020 (layers, normalisation without a scale);
Howard et al., MobileNets, 2017. Trained from scratch here, so the normalisation keeps torch's momentum: the
published one (0.9997) would need tens of thousands of steps before its statistics meant anything.
"""

from __future__ import annotations

from torch import Tensor, nn

# channels and stride of the separable layers
LAYERS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)


class Shift(nn.BatchNorm2d):
    """Batch normalisation with a trained shift and no trained scale."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=1e-4)
        self.register_parameter("weight", None)

    def reset_parameters(self) -> None:
        """As the parent does, where there may be no scale."""
        self.reset_running_stats()
        nn.init.zeros_(self.bias)


class YAMNet(nn.Module):
    """One convolution and thirteen depthwise separable ones, mean over the patch, linear.

    Input (n, 1, 96, 64): 96 frames of 64 mel bands; output (n, classes) logits.
    """

    def __init__(self, classes: int = 12) -> None:
        super().__init__()
        layers: list[nn.Module] = list(_conv(1, 32, kernel=3, stride=2))
        inputs = 32
        for channels, stride in LAYERS:
            layers += _conv(inputs, inputs, kernel=3, stride=stride, groups=inputs)
            layers += _conv(inputs, channels, kernel=1)
            inputs = channels
        self.layers = nn.Sequential(*layers)
        self.linear = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch."""
        logits: Tensor = self.linear(self.layers(x).mean((2, 3)))
        return logits


def _conv(
    inputs: int, channels: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> tuple[nn.Module, nn.Module, nn.Module]:
    return (
        nn.Conv2d(inputs, channels, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        Shift(channels),
        nn.ReLU(inplace=True),
    )


def yamnet(classes: int = 12) -> YAMNet:
    """YAMNet for `classes` words.

    >>> sum(p.numel() for p in yamnet().parameters())
    3207756
    """
    return YAMNet(classes)
