"""The model, the data and the training: nothing here knows of Flower or of fedcode."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """A small network for 8 x 8 digits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.norm2 = nn.BatchNorm2d(32)
        self.linear = nn.Linear(32 * 4 * 4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm1(self.conv1(x)))
        x = torch.relu(self.norm2(self.conv2(x)))
        return self.linear(x.flatten(1))


def digits() -> tuple[TensorDataset, TensorDataset]:
    """1,437 training and 360 test digits, in an order that never changes."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    inputs = torch.tensor(pixels[order] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    targets = torch.tensor(labels[order])
    test = len(targets) // 5
    return TensorDataset(inputs[test:], targets[test:]), TensorDataset(inputs[:test], targets[:test])


def load_data(partition_id: int, num_partitions: int, batch_size: int) -> DataLoader:
    """The training digits of one node: every num_partitions-th."""
    inputs, targets = digits()[0].tensors
    mine = slice(partition_id, None, num_partitions)
    return DataLoader(TensorDataset(inputs[mine], targets[mine]), batch_size=batch_size, shuffle=True)


def train(net: nn.Module, loader: DataLoader, epochs: int, lr: float) -> float:
    """Train in place; the mean loss."""
    net.train()
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    total = 0.0
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(inputs), targets)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (epochs * len(loader))


def test(net: nn.Module) -> tuple[float, float]:
    """Loss and accuracy on the test digits."""
    net.eval()
    inputs, targets = digits()[1].tensors
    with torch.no_grad():
        logits = net(inputs)
    accuracy = (logits.argmax(1) == targets).float().mean()
    return float(nn.functional.cross_entropy(logits, targets)), float(accuracy)
