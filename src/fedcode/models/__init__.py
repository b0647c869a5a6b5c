"""The networks of the paper, and the small one of the demo.

    network      input            trained parameters
    digits       1 x 8 x 8        25,978 (10 classes)
    resnet20     3 x 32 x 32      269,722 (10 classes), 275,572 (100)
    mobilenetv2  3 x 32 x 32      2,236,682 (10 classes), 2,351,972 (100)
    yamnet       1 x 96 x 64      3,207,756 (12 classes)

Each is a plain `torch.nn.Module`. Its first weights come from torch's global generator, so the caller seeds them.
"""

from __future__ import annotations

from fedcode.errors import extra

with extra("train"):
    from fedcode.models.digits import digits
    from fedcode.models.mobilenetv2 import mobilenetv2
    from fedcode.models.resnet20 import resnet20
    from fedcode.models.yamnet import yamnet

__all__ = ["digits", "mobilenetv2", "resnet20", "yamnet"]
