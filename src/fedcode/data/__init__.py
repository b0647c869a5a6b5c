"""Data sets, and how they are divided among clients.

>>> import numpy as np
>>> from fedcode import data
>>> digits = data.digits()
>>> rng = np.random.default_rng(0)
>>> parts = data.partition.dirichlet(digits.labels, clients=10, beta=10.0, rng=rng)
>>> data.partition.concentration(digits.labels, parts)
1.0
"""

from __future__ import annotations

from fedcode.errors import extra

with extra("train"):
    from fedcode.data import partition
    from fedcode.data.cifar import cifar10, cifar100
    from fedcode.data.dataset import Dataset
    from fedcode.data.digits import digits
    from fedcode.data.speechcommands import speechcommands

__all__ = ["Dataset", "cifar10", "cifar100", "digits", "partition", "speechcommands"]
