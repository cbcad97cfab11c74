#!/usr/bin/python3
"""PyTorch as the peer of the training benchmark: trains one network on one core, twice.

    /usr/bin/python3 bench/torch_peer.py --npz adult.npz --data-name adult --arch 2x50 --batch 1024

The .npz file holds float32 train_x, test_x (rows x features) and int64 train_y, test_y.
Prints one JSON line per loop; "seconds" is the fastest of --repeat runs, scaled from
"measured_epochs" to "epochs" where --published-epochs asks for fewer; "cpu_seconds" likewise, of the
process's CPU time. The time is that of building the network and training it: reading, converting
and testing stand outside.

Loops (same network, loss and update; only the way to get there differs):
  published  what the training code published with the paper does: a DataLoader over a list of
             (row, label) pairs, rows labelled -1 (the one left out) masked away in every batch,
             torch.optim.SGD.
  plain      the fastest straightforward autograd loop found, see TrainPlain.

Exit status: 0 done, 1 a loop gave a wrong answer, 2 bad arguments, 77 no torch (tools/get_torch).
"""
import argparse
import json
import os
import sys
import time

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # read once, when the libraries below are loaded

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.nn.utils import parameters_to_vector, vector_to_parameters
    from torch.utils.data import DataLoader
except ImportError as error:
    print(f"torch_peer: skipped, {error}; tools/get_torch installs it", file=sys.stderr)
    sys.exit(77)


def MakeNetwork(options, features, classes):
    depth, width = options.arch
    sizes = [features] + [width] * depth
    layers = []
    for fan_in, fan_out in zip(sizes, sizes[1:]):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, classes))


def TrainPublished(network, rows, options, epochs):
    loader = DataLoader(rows, batch_size=options.batch, shuffle=True)
    loss = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(
        network.parameters(), lr=options.lr, weight_decay=options.weight_decay)
    for _ in range(epochs):
        for x, y in loader:
            kept = y != -1
            cost = loss(network(x[kept]), y[kept].long())
            optimizer.zero_grad()
            cost.backward()
            optimizer.step()


def TrainPlain(network, rows, options, epochs):
    """All parameters, and all gradients, are views of one vector: the update is two operations.

    Tried on an AVX2 machine with torch 1.13 and OpenBLAS: seconds for 50 epochs (scaled from 10 and
    25, best of 12) of Adult 2x50 with batch 1024 and Crypto 2x50 with batch 100:
      torch.optim.SGD, index_select per batch                   1.57  0.51
      autograd.grad + torch._foreach_*, index_select            1.46  0.42
      autograd.grad + torch._foreach_*, one gather per epoch    1.50  0.40
      autograd.grad + a loop over parameters, one gather        1.55  0.42
      one vector, x[perm[i:i + batch]]                          1.52  0.40
      one vector, one gather per epoch                          1.48  0.37
      one vector, index_select per batch (this one)             1.41  0.38
    No faster: nn.Sequential (equal on Adult, 10 % slower on Crypto), SGD with foreach=True,
    torch.jit.script, BLIS in place of OpenBLAS.
    Gradients derived by hand take 1.27 and 0.26, but such a loop has left autograd behind.
    """
    x, y = rows
    parameters = list(network.parameters())
    weights = parameters_to_vector(parameters).detach()
    gradient = torch.zeros_like(weights)
    vector_to_parameters(weights, parameters)
    for parameter, part in zip(parameters, gradient.split([p.numel() for p in parameters])):
        parameter.grad = part.view_as(parameter)
    *hidden, (last_weight, last_bias) = zip(parameters[::2], parameters[1::2])
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(options.batch):
            values = x.index_select(0, batch)
            for weight, bias in hidden:
                values = F.relu(F.linear(values, weight, bias))
            logits = F.linear(values, last_weight, last_bias)
            gradient.zero_()
            F.cross_entropy(logits, y.index_select(0, batch)).backward()
            weights.mul_(1 - options.lr * options.weight_decay).add_(gradient, alpha=-options.lr)


TRAIN = {"published": TrainPublished, "plain": TrainPlain}


@torch.no_grad()
def TestAccuracy(network, x, y):
    """Fails unless the weights are finite and the labels at least as good as a constant answer."""
    if not all(torch.isfinite(p).all() for p in network.parameters()):
        sys.exit("torch_peer: training diverged, a weight is not finite")
    accuracy = (network(x).argmax(1) == y).double().mean().item()
    constant = y.bincount().max().item() / len(y)
    if accuracy < constant:
        sys.exit(f"torch_peer: test accuracy {accuracy:.4f}, below a constant's {constant:.4f}")
    return accuracy


def BlasInUse():
    """The folder of the BLAS that torch loaded: Debian's alternatives differ by a factor of ten."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split()[-1] for line in maps if "/libblas.so" in line}
    names = sorted(os.path.basename(os.path.dirname(path)) for path in paths)
    if "blas" in names:
        print("torch_peer: torch runs on the slow reference BLAS; tools/get_torch brings OpenBLAS",
              file=sys.stderr)
    return ",".join(names) or "built-in"


def ParseArguments():
    def positive(text):
        value = int(text)
        if value < 1:
            raise ValueError(text)
        return value

    def architecture(text):
        depth, width = text.split("x")
        return positive(depth), positive(width)

    def loop_names(text):
        names = text.split(",")
        if not set(names) <= set(TRAIN):
            raise ValueError(text)
        return names

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npz", required=True, metavar="FILE")
    parser.add_argument("--data-name", help="name in the output (default: that of the file)")
    parser.add_argument("--arch", type=architecture, default="2x50", help="DEPTHxWIDTH")
    parser.add_argument("--epochs", type=positive, default=50)
    parser.add_argument("--published-epochs", type=positive,
                        help="run the published loop for fewer epochs and scale its time")
    parser.add_argument("--batch", type=positive, default=1024)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--weight-decay", type=float, default=1e-5)
    parser.add_argument("--loops", type=loop_names, default="published,plain")
    parser.add_argument("--repeat", type=positive, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.data_name = options.data_name or os.path.splitext(os.path.basename(options.npz))[0]
    return options


def main():
    options = ParseArguments()
    torch.set_num_threads(1)
    with np.load(options.npz) as file:
        train_x, train_y, test_x, test_y = (
            torch.from_numpy(file[name]) for name in ("train_x", "train_y", "test_x", "test_y"))
    rows = {"published": list(zip(train_x, train_y)), "plain": (train_x, train_y)}
    epochs = {"published": min(options.published_epochs or options.epochs, options.epochs),
              "plain": options.epochs}
    shape = train_x.shape[1], int(train_y.max()) + 1

    runs = {loop: [] for loop in options.loops}
    cpu_runs = {loop: [] for loop in options.loops}
    accuracy = {}
    for _ in range(options.repeat):  # the loops take turns, so that both meet the same noise
        for loop in options.loops:
            torch.manual_seed(options.seed)
            start, cpu_start = time.perf_counter(), time.process_time()
            network = MakeNetwork(options, *shape)
            TRAIN[loop](network, rows[loop], options, epochs[loop])
            scale = options.epochs / epochs[loop]
            runs[loop].append(round((time.perf_counter() - start) * scale, 4))
            cpu_runs[loop].append(round((time.process_time() - cpu_start) * scale, 4))
            accuracy[loop] = TestAccuracy(network, test_x, test_y)

    blas = BlasInUse()
    for loop in options.loops:
        print(json.dumps({
            "loop": loop, "data": options.data_name, "arch": "%dx%d" % options.arch,
            "epochs": options.epochs, "measured_epochs": epochs[loop], "batch": options.batch,
            "seconds": min(runs[loop]), "runs": runs[loop], "cpu_seconds": min(cpu_runs[loop]),
            "test_accuracy": round(accuracy[loop], 4),
            "torch": torch.__version__, "blas": blas}))


if __name__ == "__main__":
    main()
