"""An estimator with scikit-learn's conventions, which does not need scikit-learn."""
import csv as _csv
import inspect as _inspect
import os as _os
import shutil as _shutil
import tempfile as _tempfile
import weakref as _weakref

import numpy as _np

from ._errors import InvalidInput


def _table(x, names=None):
    """Column names and rows of texts, of an array, a list of rows or a data frame."""
    if hasattr(x, "columns") and hasattr(x, "itertuples"):
        names = [str(name) for name in x.columns]
        rows = [list(row) for row in x.itertuples(index=False, name=None)]
    else:
        array = _np.asarray(x)
        if array.ndim != 2:
            raise InvalidInput(f"X has the shape {array.shape}: it must have rows and columns")
        rows = array.tolist()
        names = names or [f"x{i}" for i in range(array.shape[1])]
    return names, [[_text(v) for v in row] for row in rows]


def _text(value):
    if value is None or value != value:  # NaN
        return ""
    return repr(value) if isinstance(value, float) else str(value)


class LucidClassifier:
    """Trains, certifies, checks and guards a classifier: ``predict`` gives guarded labels.

    promise: "labels", "full" or "both". guard: "auto" (the one that noises fewest test rows),
    "scalar", "spatial" or "exact". run: the folder (None: a temporary one). Ranges and categories
    come from the data by a rule that no single unit decides, unless ``declared`` names a schema.csv
    (docs/fit.md). ``groups`` of ``fit`` says whose row each is.

    >>> import lucid, numpy as np
    >>> rng = np.random.default_rng(1)
    >>> x = rng.random((200, 3))
    >>> y = np.where(x[:, 0] + x[:, 1] > 1, "ill", "well")
    >>> model = lucid.LucidClassifier(arch="2x6", expected_rows=200, seed=1).fit(x, y)
    >>> model.promise_
    'labels'
    >>> bool(model.score(x, y) > 0.8)
    True
    >>> sorted(set(model.predict(x[:20])))
    ['ill', 'well']
    """

    _estimator_type = "classifier"

    def __init__(self, arch=None, promise="labels", train_epsilon=1.0, guard="auto", epsilon=0.0,
                 expected_rows=None, declared=None, missing=None, test=0.2, time_limit=600.0,
                 run=None, seed=None, threads=0):
        self.arch = arch
        self.promise = promise
        self.train_epsilon = train_epsilon
        self.guard = guard
        self.epsilon = epsilon
        self.expected_rows = expected_rows
        self.declared = declared
        self.missing = missing
        self.test = test
        self.time_limit = time_limit
        self.run = run
        self.seed = seed
        self.threads = threads

    def get_params(self, deep=True):
        """The arguments of the constructor, by name."""
        names = list(_inspect.signature(type(self).__init__).parameters)[1:]
        return {name: getattr(self, name) for name in names}

    def set_params(self, **params):
        """Changes arguments of the constructor."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise InvalidInput(f"unknown parameter '{name}': one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def fit(self, X, y, groups=None, progress=None):
        """Makes the run. X: an array or a data frame, words allowed; y: the classes."""
        from . import fit
        names, rows = _table(X)
        labels = _np.asarray(y)
        if labels.ndim != 1 or len(labels) != len(rows):
            raise InvalidInput(f"y has the shape {labels.shape}, and X {len(rows)} rows")
        if groups is not None and len(groups) != len(rows):
            raise InvalidInput(f"{len(groups)} groups for {len(rows)} rows")
        for name in ["label"] if groups is None else ["label", "group"]:
            if name in names:
                raise InvalidInput(f"X has a column '{name}': classes and groups go by these names")
        self.run_ = _os.fspath(self.run or self._temporary_run())
        with _tempfile.TemporaryDirectory(prefix="lucid-") as folder:
            path = _os.path.join(folder, "rows.csv")
            with open(path, "w", newline="", encoding="utf-8") as file:
                writer = _csv.writer(file, lineterminator="\n")
                units = [] if groups is None else ["group"]
                writer.writerow(names + units + ["label"])
                for i, (row, label) in enumerate(zip(rows, labels.tolist())):
                    writer.writerow(row + ([] if groups is None else [_text(groups[i])])
                                    + [_text(label)])
            self.fit_ = fit(path, "label", self.run_, unit=None if groups is None else "group",
                            promise=self.promise, train_epsilon=self.train_epsilon,
                            arch=self.arch, expected_rows=self.expected_rows,
                            declared=self.declared, missing=self.missing, test=self.test,
                            time_limit=self.time_limit, seed=self.seed, threads=self.threads,
                            progress=progress)
        self.feature_names_in_ = _np.asarray(names, dtype=object)
        self.n_features_in_ = len(names)
        self._open()
        by_text = {_text(v): v for v in labels.tolist()}
        self._classes = _np.asarray([by_text[name] for name in self._guard.classes])
        self.classes_ = _np.sort(self._classes)
        self.promise_ = self._guard.promise
        return self

    def _open(self):
        from . import Guard
        kind = self.fit_["guard"] if self.guard == "auto" else self.guard
        self._guard = Guard(self.run_, guard=kind, epsilon=self.epsilon)

    def __getstate__(self):
        """A pickle names the folder of the run and does not hold it."""
        return {name: value for name, value in self.__dict__.items() if name != "_guard"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        if "fit_" in state:
            self._open()

    def _temporary_run(self):
        folder = _tempfile.mkdtemp(prefix="lucid-")
        _weakref.finalize(self, _shutil.rmtree, folder, ignore_errors=True)
        return _os.path.join(folder, "run")

    def predict(self, X):
        """Guarded classes, the same every time for the same row. Values outside of the ranges are
        clipped."""
        if not hasattr(self, "_guard"):
            raise InvalidInput("this LucidClassifier is not fitted yet: call fit")
        names, rows = _table(X, list(self.feature_names_in_))
        width = len(rows[0]) if rows else self.n_features_in_
        if width != self.n_features_in_:
            raise InvalidInput(f"X has {width} columns, fit saw {self.n_features_in_}")
        place = {name: i for i, name in enumerate(names)}
        absent = [c for c in self._guard.columns if c not in place]
        if absent:
            raise InvalidInput(f"X has no column '{absent[0]}'")
        order = [place[column] for column in self._guard.columns]
        records = [[row[i] for i in order] for row in rows]
        return self._classes[self._guard.predict_records(records, clip=True)]

    def score(self, X, y):
        """The share of right answers."""
        return float(_np.mean(self.predict(X) == _np.asarray(y)))

    @property
    def certificate_(self):
        """The certificate of the run, or None where none was made."""
        import json
        path = _os.path.join(self.run_, "certificate.json")
        if not _os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def privacy_card(self):
        """What may be published about a service of this run."""
        from . import card
        return card(self.run_)

    def __repr__(self):
        default = _inspect.signature(type(self).__init__).parameters
        words = [f"{name}={value!r}" for name, value in self.get_params().items()
                 if value != default[name].default]
        return f"LucidClassifier({', '.join(words)})"
