"""Many clients on one machine: `fedcode.simulate`, and the same as events.

run = fedcode.simulate("fedcode", rounds=10)
for event in fedcode.simulation.run(Config(method="fedcode")): ...
"""

from __future__ import annotations

from fedcode.errors import extra

with extra("train"):
    from fedcode.simulation.config import Config
    from fedcode.simulation.draw import Draw
    from fedcode.simulation.entry import Run, run, simulate
    from fedcode.simulation.given import Given, given
    from fedcode.simulation.job import Job, Result, Trainer
    from fedcode.simulation.training import train

__all__ = ["Config", "Draw", "Given", "Job", "Result", "Run", "Trainer", "given", "run", "simulate", "train"]
