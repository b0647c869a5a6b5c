"""The paper's experiments and ours: settings as data, run cell by cell, kept in `results/`."""
