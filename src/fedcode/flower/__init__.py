"""The methods on Flower: a strategy in FedAvg's place and a mod for the clients, two lines of an app.

from fedcode.flower import FedCode            strategy = FedCode(method="fedcode", clusters=64)
from fedcode.flower import codebook_mod       app = ClientApp(mods=[codebook_mod])
"""

from __future__ import annotations

from fedcode.errors import require

require("flwr", "flower")

from fedcode.flower.mod import codebook_mod  # noqa: E402
from fedcode.flower.strategy import FedCode  # noqa: E402

__all__ = ["FedCode", "codebook_mod"]
