"""LUCID: label-only access to a neural network that does not give away single training rows.

>>> import lucid, tempfile, os
>>> folder = tempfile.mkdtemp()
>>> data = lucid.Dataset.synth2d(os.path.join(folder, "points"), rows=60, seed=1)
>>> run = os.path.join(folder, "run")
>>> trained = lucid.train(data, run, arch="2x6", batch=16, epochs=60, lr=0.2, seed=1)
>>> trained["members"]
60
>>> certificate = lucid.bound(run)
>>> len(certificate["classes"])
2
>>> lucid.check(run)["accepted"]
True
>>> guard = lucid.Guard(run, guard="exact")
>>> guard.promise
'labels'
>>> labels = guard.predict(data.test_x)
>>> labels.shape == data.test_y.shape
True

``lucid.fit`` does all of it for a plain CSV, and ``lucid.LucidClassifier`` for arrays and data
frames, as scikit-learn's estimators do.
"""
import atexit as _atexit
import json as _json
import os as _os
import tempfile as _tempfile
import warnings as _warnings
import weakref as _weakref

import numpy as _np

from . import _lucid
from ._errors import (DataConversionWarning, Error, FileError, FitWarning, InternalError,
                      InvalidInput, Mismatch, NotFittedError, Stopped)
from ._estimator import LucidClassifier
from ._network import Network

__version__ = _lucid.version
__all__ = [
    "Dataset", "Guard", "LucidClassifier", "Network", "Server", "audit", "bound", "card", "check",
    "evaluate", "fit", "import_networks", "serve", "train",
    "DataConversionWarning", "Error", "FileError", "FitWarning", "InternalError", "InvalidInput",
    "Mismatch", "NotFittedError", "Stopped",
]


class Dataset(_lucid.Dataset):
    """A data directory, encoded: ``train_x`` and ``test_x`` (float32 in [0, 1]) and the classes
    ``train_y`` and ``test_y`` are views of its memory. ``units`` lists the training rows of each
    unit; ``row_ids`` names every training row by what it holds, wherever it stands.

    >>> import lucid, numpy as np, tempfile, os
    >>> x = np.array([[0.1, 0.9], [0.8, 0.3], [0.5, 0.5]], dtype=np.float32)
    >>> data = lucid.Dataset.from_arrays(os.path.join(tempfile.mkdtemp(), "d"), x, [0, 1, 1])
    >>> bool((data.train_x == x).all()), data.classes
    (True, ['0', '1'])
    """

    def __init__(self, folder, clip=False, rows=None):
        """clip: values outside of their range are clipped instead of refused. rows: only so many
        training rows, chosen by a public hash."""
        super().__init__(_os.fspath(folder), clip, rows or 0)

    @classmethod
    def from_arrays(cls, folder, x, y, groups=None, test=None, ranges=None, classes=None):
        """Writes a data directory and opens it.

        x: numbers, shape (rows, inputs). y: the classes. groups: whose row each is. test: a pair
        (x, y). ranges: a pair (low, high) per input that is declared as its range (default: 0 to
        1); values outside of it are an error. classes: the declared names of the classes (default:
        those of y, and a private run then promises ``full, chosen after looking``).
        """
        x, y = _np.asarray(x), _np.asarray(y)
        if x.ndim != 2 or len(x) != len(y):
            raise InvalidInput(f"x has the shape {x.shape} and y {y.shape}: a row of x for each y")
        declared = classes is not None
        classes = [str(c) for c in classes] if declared else sorted({str(v) for v in y.tolist()})
        index = {name: i for i, name in enumerate(classes)}
        ranges = [(0, 1)] * x.shape[1] if ranges is None else list(ranges)
        if len(ranges) != x.shape[1]:
            raise InvalidInput(f"{len(ranges)} ranges for {x.shape[1]} inputs")
        lines = ["column,kind,offset,divisor,categories"]
        for i, (low, high) in enumerate(ranges):
            lines.append(f"x{i},numeric,{-float(low)!r},{float(high) - float(low)!r},")
        if groups is not None:
            lines.append("unit,unit,,,")
        lines.append("label,label,,," + _quoted("|".join(classes)))
        if not declared:
            lines.append("# declared = false")
        _os.makedirs(folder, exist_ok=True)
        _write(folder, "schema.csv", lines)
        header = ",".join([f"x{i}" for i in range(x.shape[1])]
                          + (["unit"] if groups is not None else []) + ["label"])
        units = None if groups is None else [str(g) for g in _np.asarray(groups).tolist()]
        _write(folder, "train.csv", [header] + _rows(x, y, index, units))
        if test is not None:
            test_x, test_y = _np.asarray(test[0]), _np.asarray(test[1])
            header = ",".join([f"x{i}" for i in range(x.shape[1])] + ["label"])
            _write(folder, "test.csv", [header] + _rows(test_x, test_y, index, None))
        return cls(folder)

    @classmethod
    def synth2d(cls, folder, rows=700, seed=0):
        """The two-dimensional data set of the paper, made in ``folder``."""
        _lucid.synth2d(_os.fspath(folder), rows, seed)
        return cls(folder)


def _write(folder, name, lines):
    with open(_os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def _quoted(cell):
    return '"' + cell.replace('"', '""') + '"'


def _rows(x, y, index, units):
    lines = []
    for i, (row, label) in enumerate(zip(x.tolist(), y.tolist())):
        if str(label) not in index:
            raise InvalidInput(f"class {label!r} of a row is not among the classes {list(index)}")
        cells = [repr(float(v)) for v in row]
        if units is not None:
            cells.append(_quoted(units[i]))
        lines.append(",".join(cells + [str(index[str(label)])]))
    return lines


def _shown(progress):
    """None, a callable(what, done, total), or True: a tqdm bar where tqdm is there."""
    if progress is None or progress is False or callable(progress):
        return progress or None
    if progress is not True:
        raise InvalidInput(f"progress is {progress!r}: it must be a callable(what, done, total), "
                           "True or None")
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    state = {}

    def show(what, done, total):
        if state.get("what") != what:
            if "bar" in state:
                state["bar"].close()
            state.update(what=what, bar=tqdm(desc=what, total=total or None))
        state["bar"].total = total or None
        state["bar"].n = done
        state["bar"].refresh()

    return show


def train(dataset, run, arch="2x50", preset="paper", *, seed=None, threads=0, progress=None,
          **options):
    """Trains N and a network without each unit into the folder ``run``, as ``lucid train`` does,
    and returns what it made. Called again it goes on with what is there.

    options: batch, epochs, lr, weight_decay, momentum, clip_norm, expected_rows, rows_per_unit,
    epsilon, delta, declare, members. seed: None takes one from the system's entropy.
    """
    known = {"batch", "epochs", "lr", "weight_decay", "momentum", "clip_norm", "expected_rows",
             "rows_per_unit", "epsilon", "delta", "declare", "members"}
    _refuse_unknown(options, known)
    return _lucid.train(dataset, _os.fspath(run), arch, preset, options, seed, threads,
                        _shown(progress))


def import_networks(dataset, network, members, run, *, arch=None, partial=False, threads=0,
                    progress=None):
    """Makes a run of networks that were trained elsewhere, as ``lucid import`` does, and returns
    what it made. Called again it goes on with what is there.

    network: the file of N, .safetensors or .onnx. members: a folder with a file for each unit left
    out (its first row's number in the name), or a .safetensors file of stacked networks. partial:
    units without a network are accepted, and the run says so.
    """
    return _lucid.import_networks(dataset, _os.fspath(network), _os.fspath(members),
                                  _os.fspath(run), arch or "", partial, threads,
                                  _shown(progress))


def bound(run, *, time_limit=600.0, gap=0.01, domain="box", threads=0, progress=None):
    """Proves how far N's members may disagree with N, as ``lucid bound`` does, and returns the
    certificate. Better bounds that the run has already stay. The bounds of a run with declared
    bounds are decided instead."""
    return _json.loads(
        _lucid.bound(_os.fspath(run), float(time_limit), gap, domain, threads, _shown(progress)))


def check(run, *, threads=0, progress=None):
    """Has the certificate and its proof checked by the code of ``lucid-check``, which shares none
    with the engine; leaves a receipt if they are accepted."""
    return _lucid.check(_os.fspath(run), threads, _shown(progress))


def evaluate(run, methods=("none", "scalar"), epsilons=(0.0,), *, threads=0, progress=None):
    """Accuracy and access time of guards and baselines on the run's test rows."""
    return _json.loads(_lucid.evaluate(_os.fspath(run), list(methods), [float(e) for e in epsilons],
                                       threads, _shown(progress)))


def audit(run, *, threads=0, progress=None, **options):
    """Attacks guarded and unguarded access as ``lucid audit`` does, writes RUN/audit.json and
    returns it. ``["holds"]`` says whether every claim held.

    options: attacks, games, accesses (lists of names), epsilons, targets, duplicates, retrained,
    deployed (pairs of networks or services made anew), http (asks a server on loopback, too), seed.
    """
    _refuse_unknown(options, {"attacks", "games", "accesses", "epsilons", "targets", "duplicates",
                              "retrained", "deployed", "http", "seed"})
    with _tempfile.TemporaryDirectory(prefix="lucid-audit-") as scratch:
        return _json.loads(_lucid.audit(_os.fspath(run), options, scratch, threads,
                                        _shown(progress)))


_servers = _weakref.WeakSet()


@_atexit.register
def _stop_servers():
    for server in list(_servers):
        server.stop()


class Server(_lucid.Server):
    """A server of guarded labels in a thread of this process: what ``serve`` returns. In a
    ``with`` statement it stops at the end."""

    def __init__(self, run, guard="scalar", epsilon=0.0, *, listen="127.0.0.1:0", admin="",
                 **options):
        _refuse_unknown(options, {"mechanism", "promise", "certificate", "unchecked", "name",
                                  "key_file", "api_keys", "tls_certificate", "tls_key", "ledger",
                                  "ledger_mark", "budget", "rate", "latency_floor", "threads"})
        self._scheme = "https" if options.get("tls_certificate") else "http"
        self._name = options.get("name", "lucid")
        super().__init__(_os.fspath(run), guard, float(epsilon), listen, admin, options)
        _servers.add(self)

    @property
    def url(self):
        """Where it listens: ``http://127.0.0.1:PORT``."""
        return f"{self._scheme}://{self.address}"

    @property
    def infer_url(self):
        """Where rows are posted (docs/serve.md)."""
        return f"{self.url}/v2/models/{self._name}/infer"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def serve(run, guard="scalar", epsilon=0.0, *, listen="127.0.0.1:0", admin="", **options):
    """Serves guarded labels over HTTP as ``lucid serve`` does, in a thread of this process, and
    returns a handle with ``url``, ``reload()`` and ``stop()``. Port 0 takes a free one.

    options: mechanism, promise, certificate, unchecked, name, key_file, api_keys, tls_certificate,
    tls_key, ledger (as ``lucid ledger init`` made it), ledger_mark, budget, rate, latency_floor,
    threads.
    """
    return Server(run, guard, epsilon, listen=listen, admin=admin, **options)


def fit(csv, label, run, *, seed=None, threads=0, progress=None, **options):
    """From one plain CSV to a run that can be served, as ``lucid fit`` does. Returns what
    ``lucid fit --json`` prints. Columns that are left out, and what is odd, are warnings of the
    kind FitWarning. Called again with the same arguments it goes on after a stop.

    options: unit, promise ("labels", "full", "both"), missing, declared, test, arch,
    expected_rows, rows_per_unit, train_epsilon, train_delta, time_limit.
    """
    known = {"unit", "promise", "missing", "declared", "test", "arch", "expected_rows",
             "rows_per_unit", "train_epsilon", "train_delta", "time_limit"}
    _refuse_unknown(options, known)
    given = {name: value for name, value in options.items() if value is not None}
    made = _json.loads(_lucid.fit(_os.fspath(csv), label, _os.fspath(run), given, seed, threads,
                                  _shown(progress)))
    for column in made["columns"]:
        if column["what"].startswith("left out"):
            _warnings.warn(f"column {column['column']!r} is {column['what']}", FitWarning,
                           stacklevel=2)
    for line in made["warnings"]:
        _warnings.warn(line, FitWarning, stacklevel=2)
    return made


def card(run):
    """The privacy card: what may be published about a service of this run."""
    return _json.loads(_lucid.card(_os.fspath(run)))


def _refuse_unknown(options, known):
    for name in options:
        if name not in known:
            raise InvalidInput(f"unknown option '{name}': one of {', '.join(sorted(known))}")


class Guard(_lucid.Guard):
    """Guarded labels of a run: the only way to ask N that keeps a promise.

    guard: "scalar", "spatial" or "exact". epsilon: of an answer; no ledger counts it here. The key
    file (default: RUN/guard.key, as of the programs) fixes the noise: the same key, the same
    answers.
    """

    def __init__(self, run, guard="scalar", epsilon=0.0, mechanism="paper", key_file=None):
        super().__init__(_os.fspath(run), guard, float(epsilon), mechanism,
                         _os.fspath(key_file) if key_file else "")

    def predict(self, x):
        """The class (a number) of every row of x: encoded inputs in [0, 1], shape (rows, inputs)."""
        return super().predict(_np.ascontiguousarray(x, dtype=_np.float32))

    def predict_records(self, records, clip=False):
        """The same for raw values, in the order of ``columns``. clip: values outside of a range are
        clipped, unknown categories are 'other', missing numbers the middle of the range."""
        return super().predict_records([["" if v is None else str(v) for v in record]
                                        for record in records], clip)
