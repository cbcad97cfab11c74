"""An estimator with scikit-learn's conventions, which does not need scikit-learn."""
import csv as _csv
import inspect as _inspect
import os as _os
import shutil as _shutil
import tempfile as _tempfile
import weakref as _weakref

import numpy as _np

from . import _validate
from ._errors import InvalidInput, not_fitted

# Checks of scikit-learn that contradict a rule of LUCID, with the rule. All of them pass where
# there are enough rows and one key (python/tests/test_sklearn.py).
_FEW_ROWS = "data of a few rows: a class needs ten units, and no single unit may decide anything"
_FRESH_NOISE = "two fits are compared: the noise of each comes from a fresh secret key"
_CONTRADICTED = {
    "check_classifier_data_not_an_array": _FRESH_NOISE,
    "check_classifiers_classes": _FEW_ROWS,
    "check_dict_unchanged": _FEW_ROWS,
    "check_dont_overwrite_parameters": _FEW_ROWS,
    "check_dtype_object": _FEW_ROWS,
    "check_estimators_dtypes": _FEW_ROWS,
    "check_estimators_fit_returns_self": _FEW_ROWS,
    "check_estimators_nan_inf": _FEW_ROWS,
    "check_estimators_overwrite_params": _FEW_ROWS,
    "check_fit2d_1feature": _FEW_ROWS,
    "check_fit2d_predict1d": _FEW_ROWS,
    "check_fit_idempotent": _FRESH_NOISE,
    "check_fit_score_takes_y": _FEW_ROWS,
    "check_methods_sample_order_invariance": _FEW_ROWS,
    "check_methods_subset_invariance": _FEW_ROWS,
    "check_supervised_y_2d": _FRESH_NOISE,
}


class LucidClassifier:
    """Trains, certifies, checks and guards a classifier: ``predict`` gives guarded labels.

    promise: "labels", "full" or "both" (also "labels+full"). guard: "auto" (the one that noises
    fewest test rows), "scalar", "spatial" or "exact". run: the folder (None: a temporary one).
    Ranges and categories come from the data by a rule that no single unit decides, unless
    ``declared`` names a schema.csv (docs/fit.md). ``groups`` of ``fit`` says whose row each is.
    random_state: a whole number trains the same networks again; the noise of answers is never
    seeded.

    >>> import lucid, numpy as np
    >>> rng = np.random.default_rng(1)
    >>> x = rng.random((200, 3))
    >>> y = np.where(x[:, 0] + x[:, 1] > 1, "ill", "well")
    >>> model = lucid.LucidClassifier(arch="2x6", expected_rows=200, random_state=1).fit(x, y)
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
                 run=None, random_state=None, threads=0):
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
        self.random_state = random_state
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

    def _refuses_missing(self):
        return self.missing == "refuse" or (self.missing is None and self.promise == "labels")

    def _more_tags(self):
        """For scikit-learn before 1.6: what this estimator takes, and the checks that privacy
        contradicts."""
        return {"X_types": ["2darray", "string"], "allow_nan": not self._refuses_missing(),
                "requires_y": True, "_xfail_checks": dict(_CONTRADICTED)}

    def __sklearn_tags__(self):
        """The same for scikit-learn from 1.6 on, which takes the checks as an argument."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags
        return Tags(estimator_type="classifier", target_tags=TargetTags(required=True),
                    classifier_tags=ClassifierTags(),
                    input_tags=InputTags(string=True, allow_nan=not self._refuses_missing()))

    def fit(self, X, y, groups=None, progress=None):
        """Makes the run. X: an array or a data frame, words allowed; y: the classes."""
        from . import fit
        if self.guard not in ("auto", "scalar", "spatial", "exact"):
            raise InvalidInput(f"guard {self.guard!r} is not one of: auto, scalar, spatial, exact")
        if not 0 <= self.epsilon < _np.inf:
            raise InvalidInput(f"epsilon is {self.epsilon}, must be a finite number >= 0")
        frame, rows = _validate.table(X, self._refuses_missing())
        names = frame or [f"x{i}" for i in range(len(rows[0]))]
        labels = _validate.labels(y, len(rows))
        text = _validate.text
        units = None if groups is None else _validate.groups(groups, len(rows))
        for name in ["label"] if groups is None else ["label", "group"]:
            if name in names:
                raise InvalidInput(f"X has a column '{name}': classes and groups go by these names")
        self.run_ = _os.fspath(self.run or self._temporary_run())
        with _tempfile.TemporaryDirectory(prefix="lucid-") as folder:
            path = _os.path.join(folder, "rows.csv")
            with open(path, "w", newline="", encoding="utf-8") as file:
                writer = _csv.writer(file, lineterminator="\n")
                writer.writerow(names + ([] if units is None else ["group"]) + ["label"])
                for i, (row, label) in enumerate(zip(rows, labels.tolist())):
                    writer.writerow(row + ([] if units is None else [units[i]]) + [text(label)])
            self.fit_ = fit(path, "label", self.run_, unit=None if groups is None else "group",
                            promise=self.promise, train_epsilon=self.train_epsilon,
                            arch=self.arch, expected_rows=self.expected_rows,
                            declared=self.declared, missing=self.missing, test=self.test,
                            time_limit=self.time_limit,
                            seed=_validate.seed_of(self.random_state), threads=self.threads,
                            progress=progress)
        if frame:
            self.feature_names_in_ = _np.asarray(frame, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._names = names
        self.n_features_in_ = len(names)
        self._open()
        by_text = {text(v): v for v in labels.tolist()}
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
        clipped. The columns of a data frame go by their names, and further ones are ignored."""
        if not hasattr(self, "_guard"):
            raise not_fitted(type(self).__name__)
        frame, rows = _validate.table(X, self._refuses_missing())
        by_name = frame is not None and hasattr(self, "feature_names_in_")
        if not by_name and len(rows[0]) != self.n_features_in_:
            raise InvalidInput(f"X has {len(rows[0])} features, but {type(self).__name__} is "
                               f"expecting {self.n_features_in_} features as input")
        names = frame if by_name else self._names
        place = {name: i for i, name in enumerate(names)}
        absent = [c for c in self._guard.columns if c not in place]
        if absent:
            raise InvalidInput(f"X has no column '{absent[0]}'")
        order = [place[column] for column in self._guard.columns]
        records = [[row[i] for i in order] for row in rows]
        return self._classes[self._guard.predict_records(records, clip=True)]

    def score(self, X, y):
        """The share of right answers."""
        said, right = self.predict(X).tolist(), _np.asarray(y).ravel().tolist()
        if len(said) != len(right):
            raise InvalidInput(f"{len(right)} classes for {len(said)} rows")
        return sum(a == b for a, b in zip(said, right)) / len(said)

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
