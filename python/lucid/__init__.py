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
import difflib as _difflib
import inspect as _inspect
import json as _json
import operator as _operator
import os as _os
import tempfile as _tempfile
import warnings as _warnings
import weakref as _weakref

import numpy as _np

from . import _lucid, _validate
from ._errors import (DataConversionWarning, Error, FileError, FitWarning, InternalError,
                      InvalidInput, Mismatch, NotFittedError, Stopped)
from ._estimator import LucidClassifier
from ._network import Network

__version__ = _lucid.version
__all__ = [
    "Dataset", "Guard", "LucidClassifier", "Network", "Server", "audit", "bound", "card", "check",
    "evaluate", "fit", "import_networks", "report", "serve", "train",
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
        super().__init__(_os.fspath(folder), bool(clip), _whole("rows", rows or 0))

    @classmethod
    def from_arrays(cls, folder, x, y, groups=None, test=None, ranges=None, classes=None):
        """Writes a data directory and opens it.

        x: numbers, shape (rows, inputs). y: the classes. groups: whose row each is. test: a pair
        (x, y). ranges: a pair (low, high) per input that is declared as its range (default: 0 to
        1); values outside of it are an error. classes: the declared names of the classes (default:
        those of y, and a private run then promises ``full, chosen after looking``).
        """
        x, y = _floats("x", x), _np.asarray(y)
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
        lines.append("# declared = true" if declared else "# declared = false")
        _os.makedirs(folder, exist_ok=True)
        _write(folder, "schema.csv", lines)
        header = ",".join([f"x{i}" for i in range(x.shape[1])]
                          + (["unit"] if groups is not None else []) + ["label"])
        units = None if groups is None else [str(g) for g in _np.asarray(groups).tolist()]
        _write(folder, "train.csv", [header] + _rows(x, y, index, units))
        if test is not None:
            test_x, test_y = _floats("the test rows", test[0]), _np.asarray(test[1])
            if test_x.shape != (len(test_y), x.shape[1]):
                raise InvalidInput(f"the test rows have the shape {test_x.shape} and their classes "
                                   f"{test_y.shape}: a row of {x.shape[1]} inputs for each class")
            header = ",".join([f"x{i}" for i in range(x.shape[1])] + ["label"])
            _write(folder, "test.csv", [header] + _rows(test_x, test_y, index, None))
        return cls(folder)

    @classmethod
    def synth2d(cls, folder, rows=700, seed=0):
        """The two-dimensional data set of the paper, made in ``folder``."""
        _lucid.synth2d(_os.fspath(folder), _whole("rows", rows), _seed(seed))
        return cls(folder)


def _floats(what, values):
    """Numbers as they are, at least as exact as they came."""
    try:
        array = _np.asarray(values)
        return array if array.dtype == _np.float32 else array.astype(float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what}: {error} (lucid.fit and lucid.LucidClassifier take words)"
                           ) from None


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


# ---- arguments ----

def _refuse(unknown, function):
    """Refuses options that the function does not have, with the nearest of those that it has."""
    known = [name for name, one in _inspect.signature(function).parameters.items()
             if one.kind is one.KEYWORD_ONLY]
    for name in unknown:
        near = _difflib.get_close_matches(name, known, 1)
        hint = f", did you mean '{near[0]}'?" if near else f": one of {', '.join(sorted(known))}"
        raise InvalidInput(f"unknown option '{name}'{hint}")


def _given(**options):
    """Options that are not None. Paths become texts."""
    return {name: _os.fspath(value) if isinstance(value, _os.PathLike) else value
            for name, value in options.items() if value is not None}


def _number(name, value):
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is {value!r}, must be a number") from None


def _whole(name, value, most=2**62):
    try:
        number = _operator.index(value)
    except TypeError:
        number = -1
    if not 0 <= number <= most:
        raise InvalidInput(f"{name} is {value!r}, must be a whole number from 0 to {most}")
    return number


def _threads(value):
    return _whole("threads", value, 4096)


def _seed(value):
    return None if value is None else _whole("seed", value, 2**64 - 1)


def _dataset(value):
    """A data set, or the one in the folder of that name."""
    if isinstance(value, Dataset):
        return value
    if isinstance(value, (str, _os.PathLike)):
        return Dataset(value)
    raise InvalidInput(f"the data set is a {type(value).__name__}: it must be a lucid.Dataset or "
                       "the folder of one (arrays become one with lucid.Dataset.from_arrays)")


# ---- the commands ----

def train(dataset, run, arch="2x50", preset="paper", *, batch=None, epochs=None, lr=None,
          weight_decay=None, momentum=None, clip_norm=None, standardise=None,
          expected_rows=None, rows_per_unit=None, epsilon=None, delta=None, declare=None, members=None, seed=None,
          threads=0, progress=None, **unknown):
    """Trains N and a network without each unit into the folder ``run``, as ``lucid train`` does,
    and returns what it made. Called again it goes on with what is there.

    dataset: a Dataset, or its folder. preset: "paper", "stable", "clipped" or "private"; options
    that are None are the preset's. epsilon, delta, declare: of private training. members: only so
    many units (the run is partial then). seed: None takes one from the system's entropy.

    >>> import lucid, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> data = lucid.Dataset.synth2d(os.path.join(folder, "points"), rows=40, seed=1)
    >>> made = lucid.train(data, os.path.join(folder, "run"), arch="2x6", epochs=20, seed=1)
    >>> made["rows"], made["members"], made["partial"]
    (40, 40, False)
    """
    _refuse(unknown, train)
    options = _given(batch=batch, epochs=epochs, lr=lr, weight_decay=weight_decay,
                     momentum=momentum, clip_norm=clip_norm, standardise=standardise,
                     expected_rows=expected_rows, rows_per_unit=rows_per_unit, epsilon=epsilon,
                     delta=delta, declare=declare, members=members)
    return _lucid.train(_dataset(dataset), _os.fspath(run), _os.fspath(arch), preset, options,
                        _seed(seed), _threads(threads), _shown(progress))


def import_networks(dataset, network, members, run, *, arch=None, partial=False, threads=0,
                    progress=None):
    """Makes a run of networks that were trained elsewhere, as ``lucid import`` does, and returns
    what it made. Called again it goes on with what is there.

    network: the file of N, .safetensors or .onnx. members: a folder with a file for each unit left
    out (its first row's number in the name), or a .safetensors file of stacked networks. partial:
    units without a network are accepted, and the run says so.

    >>> import lucid, numpy as np, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> data = lucid.Dataset.from_arrays(os.path.join(folder, "d"), [[0.2], [0.8]], [0, 1])
    >>> os.mkdir(os.path.join(folder, "members"))
    >>> for name, bias in (("n", 0.0), ("members/0", 0.1), ("members/1", -0.1)):
    ...     one = lucid.Network([([[-1.0], [1.0]], [0.5, bias - 0.5])])
    ...     one.save(os.path.join(folder, name + ".safetensors"))
    >>> made = lucid.import_networks(data, os.path.join(folder, "n.safetensors"),
    ...                              os.path.join(folder, "members"), os.path.join(folder, "run"))
    >>> made["members"], made["train_accuracy"]
    (2, 1.0)
    """
    return _lucid.import_networks(_dataset(dataset), _os.fspath(network), _os.fspath(members),
                                  _os.fspath(run), _os.fspath(arch or ""), bool(partial),
                                  _threads(threads), _shown(progress))


def bound(run, *, time_limit=600.0, gap=0.01, domain=None, threads=0, progress=None):
    """Proves how far N's members may disagree with N, as ``lucid bound`` does, and returns the
    certificate. Better bounds that the run has already stay. The bounds of a run with declared
    bounds are decided instead. time_limit: seconds; at its end the bounds hold, and the next call
    goes on. domain: "box", or "schema", only inputs that records encode to (None: that of the
    certificate that is there; else "schema" where columns are not all numbers).

    >>> import lucid, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> data = lucid.Dataset.synth2d(os.path.join(folder, "points"), rows=40, seed=1)
    >>> run = os.path.join(folder, "run")
    >>> made = lucid.train(data, run, arch="2x6", epochs=60, lr=0.2, batch=8, seed=1)
    >>> certificate = lucid.bound(run, time_limit=60)
    >>> all(one["beta_lower"] <= one["beta_upper"] for one in certificate["classes"])
    True
    """
    return _json.loads(_lucid.bound(_os.fspath(run), _number("time_limit", time_limit),
                                    _number("gap", gap), domain or "", _threads(threads),
                                    _shown(progress)))


def check(run, *, threads=0, progress=None):
    """Has the certificate and its proof checked by the code of ``lucid-check``, which shares none
    with the engine; leaves a receipt if they are accepted.

    >>> import lucid, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> data = lucid.Dataset.synth2d(os.path.join(folder, "points"), rows=40, seed=1)
    >>> run = os.path.join(folder, "run")
    >>> made = lucid.train(data, run, arch="2x6", epochs=60, lr=0.2, batch=8, seed=1)
    >>> certificate = lucid.bound(run)
    >>> answer = lucid.check(run)
    >>> answer["accepted"], {one["outcome"] for one in answer["checks"]}
    (True, {'passed'})
    """
    return _lucid.check(_os.fspath(run), _threads(threads), _shown(progress))


def evaluate(run, methods=("none", "scalar"), epsilons=(0.0,), *, threads=0, progress=None):
    """Accuracy and access time of guards and baselines on the run's test rows, as ``lucid
    evaluate`` measures them; writes RUN/evaluation.json and returns it.

    methods: some of none, scalar, spatial, exact, naive-noise, naive-idp, dpsgd, alibi.

    >>> import lucid, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> data = lucid.Dataset.synth2d(os.path.join(folder, "points"), rows=40, seed=1)
    >>> run = os.path.join(folder, "run")
    >>> made = lucid.train(data, run, arch="2x6", epochs=60, lr=0.2, batch=8, seed=1)
    >>> certificate = lucid.bound(run)
    >>> [row["method"] for row in lucid.evaluate(run, ["none", "exact"])["rows"]]
    ['none', 'exact']
    """
    return _json.loads(_lucid.evaluate(_os.fspath(run), _names("methods", methods),
                                       [_number("epsilon", e) for e in epsilons],
                                       _threads(threads), _shown(progress)))


def _names(what, values):
    if isinstance(values, str):
        raise InvalidInput(f"{what} is {values!r}, must be a list of names")
    return [str(value) for value in values]


def audit(run, *, attacks=None, games=None, accesses=None, epsilons=None, targets=None,
          duplicates=None, retrained=None, deployed=None, http=None, seed=None, threads=0,
          progress=None, **unknown):
    """Attacks guarded and unguarded access as ``lucid audit`` does, writes RUN/audit.json and
    returns it. ``["holds"]`` says whether every claim held.

    attacks, games, accesses: lists of names (None: all that the run has files for). retrained,
    deployed: so many pairs of networks or services made anew. http: asks a server on loopback, too.

    >>> import lucid, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> data = lucid.Dataset.synth2d(os.path.join(folder, "points"), rows=40, seed=1)
    >>> run = os.path.join(folder, "run")
    >>> made = lucid.train(data, run, arch="2x6", epochs=60, lr=0.2, batch=8, seed=1)
    >>> certificate = lucid.bound(run)
    >>> lucid.audit(run, attacks=["gap"], epsilons=[0.0], seed=1)["holds"]
    True
    """
    _refuse(unknown, audit)
    names = {name: _names(name, value) for name, value in
             (("attacks", attacks), ("games", games), ("accesses", accesses)) if value is not None}
    options = _given(epsilons=None if epsilons is None else list(epsilons), targets=targets,
                     duplicates=duplicates, retrained=retrained, deployed=deployed, http=http,
                     seed=_seed(seed), **names)
    with _tempfile.TemporaryDirectory(prefix="lucid-audit-") as scratch:
        return _json.loads(_lucid.audit(_os.fspath(run), options, scratch,
                                        _threads(threads), _shown(progress)))


def report(run, out=None, *, threads=0, progress=None):
    """One self-contained HTML page of all that is known of a run, as ``lucid report`` writes it;
    returns its path (default: RUN/report.html). It names rows: it is the operator's.

    >>> import lucid, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> data = lucid.Dataset.synth2d(os.path.join(folder, "points"), rows=40, seed=1)
    >>> run = os.path.join(folder, "run")
    >>> made = lucid.train(data, run, arch="2x6", epochs=20, seed=1)
    >>> os.path.basename(lucid.report(run))
    'report.html'
    """
    return _lucid.report(_os.fspath(run), _os.fspath(out or ""), _threads(threads),
                         _shown(progress))


_servers = _weakref.WeakSet()


@_atexit.register
def _stop_servers():
    for server in list(_servers):
        server.stop()


class Server(_lucid.Server):
    """A server of guarded labels in a thread of this process: what ``serve`` returns. In a
    ``with`` statement it stops at the end. See ``serve`` for an example."""

    def __init__(self, run, guard="scalar", epsilon=0.0, *, listen="127.0.0.1:0", admin="",
                 mechanism=None, promise=None, certificate=None, unchecked=None, name="lucid",
                 key_file=None, api_keys=None, tls_certificate=None, tls_key=None, ledger=None,
                 ledger_mark=None, budget=None, rate=None, latency_floor=None, threads=None,
                 **unknown):
        _refuse(unknown, Server.__init__)
        options = _given(mechanism=mechanism, promise=_promise(promise), certificate=certificate,
                         unchecked=unchecked, name=name, key_file=key_file, api_keys=api_keys,
                         tls_certificate=tls_certificate, tls_key=tls_key, ledger=ledger,
                         ledger_mark=ledger_mark, budget=budget, rate=rate,
                         latency_floor=latency_floor, threads=threads)
        self._scheme = "https" if tls_certificate else "http"
        self._name = name
        super().__init__(_os.fspath(run), guard, _number("epsilon", epsilon), listen, admin,
                         options)
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


def serve(run, guard="scalar", epsilon=0.0, *, listen="127.0.0.1:0", admin="", mechanism=None,
          promise=None, certificate=None, unchecked=None, name="lucid", key_file=None,
          api_keys=None, tls_certificate=None, tls_key=None, ledger=None, ledger_mark=None,
          budget=None, rate=None, latency_floor=None, threads=None, **unknown):
    """Serves guarded labels over HTTP as ``lucid serve`` does, in a thread of this process, and
    returns a handle with ``url``, ``infer_url``, ``reload()`` and ``stop()``. Port 0 takes a free
    one.

    promise: refuses to open a run that does not keep it. unchecked: serves bounds that nobody has
    checked. ledger (as ``lucid ledger init`` made it), ledger_mark, budget, rate, latency_floor
    (seconds): docs/serve.md.

    >>> import lucid, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> data = lucid.Dataset.synth2d(os.path.join(folder, "points"), rows=40, seed=1)
    >>> run = os.path.join(folder, "run")
    >>> made = lucid.train(data, run, arch="2x6", epochs=60, lr=0.2, batch=8, seed=1)
    >>> certificate = lucid.bound(run)
    >>> lucid.check(run)["accepted"]
    True
    >>> with lucid.serve(run, promise="labels") as server:
    ...     server.running, server.infer_url.endswith("/v2/models/lucid/infer")
    (True, True)
    >>> server.running
    False
    """
    _refuse(unknown, serve)
    return Server(run, guard, epsilon, listen=listen, admin=admin, mechanism=mechanism,
                  promise=promise, certificate=certificate, unchecked=unchecked, name=name,
                  key_file=key_file, api_keys=api_keys, tls_certificate=tls_certificate,
                  tls_key=tls_key, ledger=ledger, ledger_mark=ledger_mark,
                  budget=budget, rate=rate, latency_floor=latency_floor, threads=threads)


def _promise(name):
    """The name of a promise; what a certificate calls "labels+full" is "both"."""
    return "both" if name in ("labels+full", "full+labels") else name


def fit(csv, label, run, *, unit=None, promise=None, missing=None, declared=None, ignore=None,
        test=None, arch=None, expected_rows=None, rows_per_unit=None, train_epsilon=None,
        train_delta=None, time_limit=None, seed=None, threads=0, progress=None, **unknown):
    """From one plain CSV to a run that can be served, as ``lucid fit`` does. Returns what
    ``lucid fit --json`` prints. Columns that are left out, and what is odd, are warnings of the
    kind FitWarning. Called again with the same arguments it goes on after a stop.

    unit: the column that says whose row it is. promise: "labels" (default), "full" or "both"
    (also "labels+full"). missing: what empty cells become, "refuse", "fill" or "drop". declared: a
    schema.csv. ignore: columns that are left out.

    >>> import lucid, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> people = os.path.join(folder, "people.csv")
    >>> with open(people, "w") as file:
    ...     print("age,score,result", file=file)
    ...     for i in range(200):
    ...         age, score = 20 + i * 7 % 60, i * 37 % 100
    ...         print(age, score, "ill" if age + score > 100 else "well", sep=",", file=file)
    >>> made = lucid.fit(people, "result", os.path.join(folder, "run"), seed=1)
    >>> made["promise"], made["bounds"]
    ('labels', 'proved and checked')
    >>> made["serve"].startswith("lucid serve ")
    True
    """
    _refuse(unknown, fit)
    given = _given(unit=unit, promise=_promise(promise), missing=missing, declared=declared,
                   ignore=None if ignore is None else _names("ignore", ignore), test=test,
                   arch=arch, expected_rows=expected_rows, rows_per_unit=rows_per_unit,
                   train_epsilon=train_epsilon, train_delta=train_delta, time_limit=time_limit)
    made = _json.loads(_lucid.fit(_os.fspath(csv), label, _os.fspath(run), given, _seed(seed),
                                  _threads(threads), _shown(progress)))
    for column in made["columns"]:
        if column["what"].startswith("left out"):
            _warnings.warn(f"column {column['column']!r} is {column['what']}", FitWarning,
                           stacklevel=2)
    for line in made["warnings"]:
        _warnings.warn(line, FitWarning, stacklevel=2)
    return made


def card(run):
    """The privacy card: what may be published about a service of this run.

    >>> import lucid, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> data = lucid.Dataset.synth2d(os.path.join(folder, "points"), rows=40, seed=1)
    >>> run = os.path.join(folder, "run")
    >>> made = lucid.train(data, run, arch="2x6", epochs=60, lr=0.2, batch=8, seed=1)
    >>> certificate = lucid.bound(run)
    >>> lucid.card(run)["promise"]
    'labels'
    """
    return _json.loads(_lucid.card(_os.fspath(run)))


class Guard(_lucid.Guard):
    """Guarded labels of a run: the only way to ask N that keeps a promise.

    guard: "scalar", "spatial" or "exact". epsilon: of an answer; no ledger counts it here. The key
    file (default: RUN/guard.key, as of the programs) fixes the noise: the same key, the same
    answers.

    >>> import lucid, os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> data = lucid.Dataset.synth2d(os.path.join(folder, "points"), rows=40, seed=1)
    >>> run = os.path.join(folder, "run")
    >>> made = lucid.train(data, run, arch="2x6", epochs=60, lr=0.2, batch=8, seed=1)
    >>> certificate = lucid.bound(run)
    >>> guard = lucid.Guard(run, guard="exact")
    >>> guard.classes, guard.columns, guard.promise
    (['below', 'above'], ['x1', 'x2'], 'labels')
    >>> labels = guard.predict(data.test_x)
    >>> bool((guard.predict(data.test_x) == labels).all())
    True
    >>> int(guard.predict_records([[0.9, 0.1]])[0]) in (0, 1)
    True
    """

    def __init__(self, run, guard="scalar", epsilon=0.0, mechanism="paper", key_file=None):
        super().__init__(_os.fspath(run), guard, _number("epsilon", epsilon), mechanism,
                         _os.fspath(key_file) if key_file else "")

    def predict(self, x):
        """The class (a number) of every row of x: encoded inputs in [0, 1], shape (rows, inputs),
        which are read where they are if they are float32. A data frame holds raw values: see
        ``predict_records``."""
        if hasattr(x, "columns"):
            return self.predict_records(x)
        try:
            encoded = _np.ascontiguousarray(x, dtype=_np.float32)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"the rows must be numbers, encoded inputs in [0, 1]: {error} "
                               "(raw values: predict_records)") from None
        return super().predict(encoded)

    def predict_records(self, records, clip=False):
        """The same for raw values: rows in the order of ``columns``, or a data frame, whose columns
        go by their names in any order, further ones ignored. clip: values outside of a range are
        clipped, unknown categories are 'other', missing numbers the middle of the range."""
        if hasattr(records, "columns"):
            absent = [name for name in self.columns if name not in records.columns]
            if absent:
                raise InvalidInput(f"there is no column '{absent[0]}': the run has "
                                   f"{', '.join(self.columns)}")
            records = records[self.columns].itertuples(index=False, name=None)
        return super().predict_records([[_validate.text(v) for v in record]
                                        for record in records], bool(clip))
