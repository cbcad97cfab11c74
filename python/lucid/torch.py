"""Your own PyTorch training: ``train`` calls it for N and once without each unit.

``from_torch`` and ``to_torch`` convert single networks. The module needs PyTorch; the rest of
``lucid`` does not.
"""
import contextlib as _contextlib
import hashlib as _hashlib
import inspect as _inspect
import json as _json
import multiprocessing as _multiprocessing
import os as _os
import random as _random
import signal as _signal
import sys as _sys
import traceback as _traceback
from multiprocessing import connection as _connection

import numpy as _np
import torch as _torch

from . import _dataset, _shown, import_networks
from ._errors import Error, InvalidInput, Mismatch
from ._network import Network

__all__ = ["batches", "from_torch", "to_torch", "train"]

_nn = _torch.nn
_WITHOUT_WEIGHTS = (_nn.ReLU, _nn.Flatten, _nn.Unflatten, _nn.Dropout, _nn.Identity)


def from_torch(module, features=None):
    """The network of a module that is a chain of Linear and Conv1d layers with ReLU between them;
    Dropout counts as in evaluation. The module's own outputs on random inputs decide whether it is
    such a chain. features: how many inputs it has (needed where its first layer is a Conv1d).

    >>> import lucid.torch, torch
    >>> module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    >>> network = lucid.torch.from_torch(module)
    >>> x = torch.rand(5, 3)
    >>> bool(abs(network(x.numpy()) - module(x).detach().numpy()).max() < 1e-5)
    True
    """
    layers = []
    for name, leaf in module.named_modules():
        if any(True for _ in leaf.children()):
            continue
        if isinstance(leaf, _nn.Conv1d):
            plain = (leaf.padding in ((0,), "valid") and leaf.dilation == (1,) and leaf.groups == 1
                     and leaf.stride == (1,))
            if not plain:
                raise InvalidInput(f"'{name}', {leaf}: a convolution must have stride 1, and no "
                                   "padding, dilation or groups")
        elif not isinstance(leaf, _nn.Linear):
            if isinstance(leaf, _WITHOUT_WEIGHTS):
                continue
            raise InvalidInput(f"'{name}', {leaf}: LUCID knows Linear, Conv1d, ReLU, Flatten, "
                               "Unflatten, Dropout and Identity")
        weight = leaf.weight.detach().cpu()
        if weight.dtype != _torch.float32:
            raise InvalidInput(f"'{name}' has weights of {weight.dtype}: call module.float() first")
        bias = _np.zeros(len(weight)) if leaf.bias is None else leaf.bias.detach().cpu().numpy()
        layers.append((weight.numpy().copy(), bias.copy()))
    network = Network(layers)
    _compare(network, module, features)
    return network


def _compare(network, module, features):
    first = network.layers[0][0]
    if first.ndim == 2:
        features = first.shape[1]
    elif features is None:
        raise InvalidInput("say how many inputs the module has with features=")
    x = _np.random.default_rng(0).random((64, features), dtype=_np.float32)
    training = module.training
    module.eval()
    try:
        with _torch.no_grad():
            theirs = module(_torch.from_numpy(x)).cpu().numpy()
    finally:
        module.train(training)
    ours = network(x)
    size = max(1.0, float(_np.abs(ours).max()))
    if theirs.shape != ours.shape or not _np.abs(theirs - ours).max() <= 1e-4 * size:
        raise InvalidInput("the module's outputs are not those of its layers one after another "
                           "with ReLU between them and nothing at the end: return logits, not "
                           "probabilities, and use no other functions in forward")


def to_torch(network):
    """A Sequential with the weights of a ``lucid.Network``, or of its file."""
    if not isinstance(network, Network):
        network = Network.load(network)
    modules = []
    convolving = False
    for i, (weight, bias) in enumerate(network.layers):
        if weight.ndim == 3:
            if not modules:
                modules.append(_nn.Unflatten(1, (weight.shape[1], -1)))
            layer = _nn.Conv1d(weight.shape[1], weight.shape[0], weight.shape[2],
                               stride=network.strides[i])
        else:
            if convolving:
                modules.append(_nn.Flatten())
            layer = _nn.Linear(weight.shape[1], weight.shape[0])
        convolving = weight.ndim == 3
        with _torch.no_grad():
            layer.weight.copy_(_torch.from_numpy(weight.copy()))
            layer.bias.copy_(_torch.from_numpy(bias.copy()))
        modules.append(layer)
        if i + 1 < len(network.layers):
            modules.append(_nn.ReLU())
    return _nn.Sequential(*modules)


def batches(ids, epoch, count, seed=0):
    """``count`` batches of an epoch: the places of their rows, by a hash of seed, epoch and the row
    alone. A row that is left out changes no other row's batch, so that the networks of a run stay
    close to one another. Divide a batch's sum of losses by the expected size, not by its own.

    >>> import lucid.torch, torch
    >>> ids = torch.arange(100)
    >>> whole = lucid.torch.batches(ids, epoch=3, count=4)
    >>> less = lucid.torch.batches(ids[1:], epoch=3, count=4)
    >>> all(set(ids[1:][b].tolist()) == set(ids[a].tolist()) - {0} for a, b in zip(whole, less))
    True
    """
    words = _np.asarray(ids).astype(_np.int64).view(_np.uint64)
    with _np.errstate(over="ignore"):
        mixed = words ^ _np.uint64(_mix(_mix(seed) ^ epoch))
        mixed = _mixed(mixed)
    place = mixed % _np.uint64(count)
    order = _np.argsort(mixed, kind="stable")
    return [_torch.from_numpy(order[place[order] == b].copy()) for b in range(count)]


def _mixed(z):  # splitmix64
    z = z + _np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> _np.uint64(30))) * _np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> _np.uint64(27))) * _np.uint64(0x94D049BB133111EB)
    return z ^ (z >> _np.uint64(31))


def _mix(number):
    with _np.errstate(over="ignore"):
        return int(_mixed(_np.array([number % 2**64], dtype=_np.uint64))[0])


def train(dataset, make_model, fit, run, *, seed=0, processes=None, members=None, progress=None,
          check=True):
    """Trains N and a network without each unit with your own code, and makes the run of them that
    ``lucid.import_networks`` makes. Returns what that returns.

    make_model(): a new module, see ``from_torch``. fit(model, x, y, ids): trains it on these rows
    (x: float32 in [0, 1], y: classes, ids: a number that names each row wherever it stands; see
    ``batches``). Both are called in a process of their own for every network, with the generators
    of Python, NumPy and PyTorch seeded by ``seed``, and one thread. processes: how many at a time
    (None: one per core). members: only so many units, evenly spaced; the run is partial then.
    check: N is trained twice first, and a training that gives two networks is refused.

    Networks are kept in the folder RUN.networks: called again, the training goes on. A training
    that fails is tried once more; then its row is named, after all the others were trained.
    """
    dataset = _dataset(dataset)
    units = dataset.units
    if members is not None and members < len(units):
        units = [units[i * len(units) // members] for i in range(members)]
    folder = _os.fspath(run).rstrip("/") + ".networks"
    _claim(folder, dataset, make_model, fit, seed)
    work = _Work(dataset, make_model, fit, seed, folder)
    tasks = [("all", [])] + [(f"row-{rows[0]}", rows) for rows in units]
    told = _shown(progress) or (lambda what, done, total: None)
    if check and not _os.path.exists(work.path("all")):
        work.run([("all", []), ("again", [])], 1, told, "trying the training")
        _demand_equal(work)
    work.run(tasks, processes or len(_os.sched_getaffinity(0)), told)
    return import_networks(dataset, work.path("all"), _os.path.join(folder, "members"), run,
                           partial=members is not None, progress=told)


def _claim(folder, dataset, make_model, fit, seed):
    """Refuses a folder that holds networks of another training."""
    rows = _hashlib.sha256(dataset.train_x.tobytes() + dataset.train_y.tobytes()
                           + dataset.schema.encode()).hexdigest()
    key = {"rows": rows, "seed": seed, "make_model": _source(make_model), "fit": _source(fit)}
    _os.makedirs(_os.path.join(folder, "members"), mode=0o700, exist_ok=True)
    path = _os.path.join(folder, "training.json")
    if _os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if _json.load(file) != key:
                raise Mismatch(f"'{folder}' holds networks of another training (other rows, seed "
                               "or functions): delete it, or choose another run")
    with open(path, "w", encoding="utf-8") as file:
        _json.dump(key, file)


def _source(function):
    try:
        return _hashlib.sha256(_inspect.getsource(function).encode()).hexdigest()
    except (OSError, TypeError):
        return "unknown"


def _demand_equal(work):
    with open(work.path("all"), "rb") as one, open(work.path("again"), "rb") as other:
        equal = one.read() == other.read()
    _os.remove(work.path("again"))
    if not equal:
        _os.remove(work.path("all"))
        raise InvalidInput("the training is not seeded: two trainings on the same rows differ "
                           "(generators of Python, NumPy and PyTorch are seeded; what else is "
                           "random?)")


@_contextlib.contextmanager
def _noted_interrupts():
    """Ctrl-C is noted in the list instead of raised: within a fork Python would lose it."""
    noted = []
    before = _signal.getsignal(_signal.SIGINT)
    try:
        if before is not _signal.SIG_IGN:
            _signal.signal(_signal.SIGINT, lambda *_: noted.append(True))
    except ValueError:  # another thread than the main one: signals do not come here
        before = _signal.SIG_IGN
    try:
        yield noted
    finally:
        if before is not _signal.SIG_IGN:
            _signal.signal(_signal.SIGINT, before)


class _Work:
    """Trainings in processes of their own, so that no network depends on those before it."""

    def __init__(self, dataset, make_model, fit, seed, folder):
        self.x = _torch.from_numpy(dataset.train_x.copy())
        self.y = _torch.from_numpy(dataset.train_y.astype(_np.int64))
        self.ids = _torch.from_numpy(dataset.row_ids)
        self.make_model, self.fit, self.seed, self.folder = make_model, fit, seed, folder

    def path(self, name, ending="safetensors"):
        where = _os.path.join(self.folder, "members") if name.startswith("row-") else self.folder
        return _os.path.join(where if ending == "safetensors" else self.folder, f"{name}.{ending}")

    def run(self, tasks, processes, told, what="training"):
        with _noted_interrupts() as interrupts:
            self._run(tasks, processes, told, what, interrupts)

    def _run(self, tasks, processes, told, what, interrupts):
        context = _multiprocessing.get_context("fork")
        waiting = [task for task in tasks if not _os.path.exists(self.path(task[0]))]
        waiting.reverse()
        running, tries, failed = {}, {}, []
        done, total = len(tasks) - len(waiting), len(tasks)
        try:
            while waiting or running:
                if interrupts:
                    raise KeyboardInterrupt
                while waiting and len(running) < processes:
                    task = waiting.pop()
                    child = context.Process(target=self._one, args=task)
                    child.start()
                    running[child.sentinel] = (child, task)
                for sentinel in _connection.wait(list(running), 0.2):
                    child, task = running.pop(sentinel)
                    child.join()
                    if _os.path.exists(self.path(task[0])):
                        done += 1
                        told(what, done, total)
                    elif tries.setdefault(task[0], 1) < 2:
                        tries[task[0]] += 1
                        waiting.append(task)
                    else:
                        failed.append((task[0], child.exitcode))
        finally:
            for child, _ in running.values():
                child.terminate()
                child.join()
        if failed:
            raise Error(self._names(failed))

    def _names(self, failed):
        name, code = failed[0]
        what = f"without row {name[4:]}" if name.startswith("row-") else "on all rows"
        log = self.path(name, "log")
        last = ""
        if _os.path.exists(log):
            with open(log, encoding="utf-8") as file:
                last = f": {file.read().strip().splitlines()[-1]}"
        more = f", and {len(failed) - 1} others" if len(failed) > 1 else ""
        how = f"was killed by signal {-code}" if code < 0 else "failed"
        return (f"the training of the network {what} {how} twice{last}{more} (all others are kept; "
                f"log: '{log}')")

    def _one(self, name, left_out):
        log = self.path(name, "log")
        try:
            _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # the parent ends this process
            if _os.path.exists(log):
                _os.remove(log)
            _torch.set_num_threads(1)
            _torch.use_deterministic_algorithms(True)
            _random.seed(self.seed)
            _np.random.seed(self.seed % 2**32)
            _torch.manual_seed(self.seed)
            keep = _torch.ones(len(self.x), dtype=_torch.bool)
            keep[left_out] = False
            model = self.make_model()
            self.fit(model, self.x[keep], self.y[keep], self.ids[keep])
            from_torch(model, self.x.shape[1]).save(self.path(name))
        except BaseException:
            with open(log, "w", encoding="utf-8") as file:
                _traceback.print_exc(file=file)
            _sys.stderr.flush()
            _os._exit(1)
        _os._exit(0)
