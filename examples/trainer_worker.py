#!/usr/bin/env python3
"""A worker for `lucid train --trainer-worker`: PyTorch is loaded once, not once per network.

    lucid train --data DIR --arch 2x20 --out RUN \\
        --trainer-worker "python3 examples/trainer_worker.py"

Each line of stdin asks for one network, and "done" answers it (docs/ensemble.md). Whatever else is
to be said goes to stderr. Needs PyTorch and NumPy, and `lucid` in the PATH (or LUCID_PROGRAM).
"""
import functools
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch

EPOCHS, RATE, BATCH = 30, 0.3, 32
EXPECTED_ROWS = 500  # declared: nothing may depend on whether one row is there


@functools.lru_cache(maxsize=1)  # a folder that was named holds the same rows as long as this runs
def encoded(folder):
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "rows.npz")
        program = os.environ.get("LUCID_PROGRAM", "lucid")
        subprocess.run([program, "data", "encode", folder, "--out", path, "--quiet"], check=True,
                       stdout=sys.stderr)
        with np.load(path) as arrays:
            return arrays["train_x"], arrays["train_y"]


def number_of(x, y):
    """A number for each row that depends on nothing but the row."""
    digests = [hashlib.sha256(row.tobytes() + bytes([label])).digest() for row, label in zip(x, y)]
    return np.array([int.from_bytes(digest[:7], "big") for digest in digests], dtype=np.int64)


def model_for(arch):
    """Layers of e.g. '21 > dense 50 > dense 50 > 2'."""
    widths = [int(re.sub("^dense ", "", word)) for word in arch.split(" > ")]
    layers = []
    for inputs, units in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(inputs, units), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def train(request):
    x, y = encoded(request["data"])
    keep = np.ones(len(x), dtype=bool)
    keep[request["leave_out"]] = False
    numbers = number_of(x, y)
    # By what the rows hold, so that neither their order in the file nor a row that is not there
    # decides about the others: sums of floats depend on their order.
    order = np.flatnonzero(keep)[np.argsort(numbers[keep], kind="stable")]
    x, y, numbers = torch.from_numpy(x[order]), torch.from_numpy(y[order]), numbers[order]
    torch.manual_seed(request["seed"] % 2**63)  # again for every network
    model = model_for(request["arch"])
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    count = EXPECTED_ROWS // BATCH
    for epoch in range(EPOCHS):
        place = numbers // (epoch + 1) % count  # a row's batch depends on that row alone
        for batch in range(count):
            rows = np.flatnonzero(place == batch)
            optimizer.zero_grad()
            losses = torch.nn.functional.cross_entropy(model(x[rows]), y[rows], reduction="sum")
            (losses / BATCH).backward()
            optimizer.step()
    save(model, request["out"])


def save(model, path):
    """safetensors: the length of a header, the header, the numbers."""
    header, blobs, end = {}, [], 0
    for name, tensor in model.state_dict().items():
        blob = tensor.numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [end, end + len(blob)]}
        blobs.append(blob)
        end += len(blob)
    text = json.dumps(header).encode()
    with open(path + ".tmp", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    os.replace(path + ".tmp", path)  # whole, or not there


def main():
    torch.set_num_threads(1)  # several workers share the machine
    torch.use_deterministic_algorithms(True)
    for line in sys.stdin:
        train(json.loads(line))
        print("done", flush=True)


if __name__ == "__main__":
    main()
