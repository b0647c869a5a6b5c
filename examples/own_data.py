"""Your own data, your own network: federated training on this machine, and what it cost."""

import numpy as np
from torch import nn

import fedcode

rng = np.random.default_rng(0)
inputs = rng.standard_normal((3000, 20)).astype(np.float32)
labels = (inputs @ rng.standard_normal((20, 5))).argmax(1)  # five classes

network = nn.Sequential(nn.Linear(20, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 5))

for method in ("fedavg", "delta"):
    run = fedcode.simulate(method, data=(inputs, labels), model=network, clients=8, rounds=10, lr=0.005)
    best, megabytes = run.summary["accuracy"]["best"], run.summary["megabytes"]["total"]
    print(f"{method}: accuracy {best:.1%} for {megabytes:.2f} MB")

run.load_into(network)  # the global model
