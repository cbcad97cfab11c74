#!/usr/bin/env python3
"""Your own PyTorch training under LUCID, beside the built-in trainer, on a data directory.

    python3 examples/pytorch_adult.py --data adult --rows 300 --out adult_torch

trains N and a network without each unit with the function `fit` below, proves the bounds, has them
checked, and does the same with `lucid.train` and its preset "stable", which `fit` resembles.
It prints accuracy on the test rows and the bounds of both. Needs PyTorch (tools/get_torch).
"""
import argparse
import os

import lucid
import lucid.torch
import numpy as np
import torch

EPOCHS, RATE, BATCH, DECAY = 100, 0.3, 32, 1e-5


def fit(model, x, y, ids):
    """Plain SGD whose batches depend on each row alone, so that one row moves little."""
    count = max(1, round(fit.expected_rows / BATCH))
    size = fit.expected_rows / count
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * count)
    for epoch in range(EPOCHS):
        for batch in lucid.torch.batches(ids, epoch, count):
            optimizer.zero_grad()
            losses = torch.nn.functional.cross_entropy(model(x[batch]), y[batch], reduction="sum")
            (losses / size).backward()  # by the expected size: it does not tell how many there are
            optimizer.step()
            schedule.step()


def measure(name, run, data, time_limit):
    certificate = lucid.bound(run, time_limit=time_limit)
    checked = "checked" if lucid.check(run)["accepted"] else "not checked"
    evaluation = lucid.evaluate(run, methods=["none", "scalar", "exact"])
    accuracy = {row["method"]: 100 * row["accuracy"] for row in evaluation["rows"]}
    bounds = ", ".join(f"{one['beta_upper']:.4f}" for one in certificate["classes"])
    print(f"{name:10}{accuracy['none']:8.2f} %{accuracy['scalar']:8.2f} %"
          f"{accuracy['exact']:8.2f} %   {bounds} ({checked})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="a data directory, such as Adult's")
    parser.add_argument("--rows", type=int, default=300, help="training rows to use (0: all)")
    parser.add_argument("--hidden", type=int, default=20, help="neurons of both hidden layers")
    parser.add_argument("--time-limit", type=float, default=60, help="seconds for the bounds")
    parser.add_argument("--out", required=True, help="runs are made in OUT/torch and OUT/builtin")
    arguments = parser.parse_args()
    data = lucid.Dataset(arguments.data, clip=True, rows=arguments.rows)
    # A declared number: the recipe must not depend on whether one person is there.
    fit.expected_rows = arguments.rows or 30000

    def make_model():
        width = arguments.hidden
        return torch.nn.Sequential(
            torch.nn.Linear(data.features, width), torch.nn.ReLU(),
            torch.nn.Linear(width, width), torch.nn.ReLU(),
            torch.nn.Linear(width, len(data.classes)))

    os.makedirs(arguments.out, exist_ok=True)
    ours = os.path.join(arguments.out, "torch")
    theirs = os.path.join(arguments.out, "builtin")
    lucid.torch.train(data, make_model, fit, ours, seed=1, progress=True)
    lucid.train(data, theirs, arch=f"2x{arguments.hidden}", preset="stable", seed=1, batch=BATCH,
                epochs=EPOCHS, lr=RATE, weight_decay=DECAY, expected_rows=fit.expected_rows)
    share = max(np.mean(data.test_y == c) for c in range(len(data.classes)))
    print(f"test rows: {len(data.test_y)}, most common class {100 * share:.2f} %")
    print("trainer       none    scalar     exact   bounds of the classes")
    measure("PyTorch", ours, data, arguments.time_limit)
    measure("built-in", theirs, data, arguments.time_limit)


if __name__ == "__main__":
    main()
