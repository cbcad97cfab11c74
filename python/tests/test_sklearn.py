"""scikit-learn's own checks of an estimator. They print passed / declared / failed."""
import importlib.util
import os
import unittest
import warnings

import lucid
import numpy as np
from lucid._estimator import _CONTRADICTED, _FEW_ROWS


class Undeclared(lucid.LucidClassifier):
    """Declares no check, so that scikit-learn runs them all."""

    def _more_tags(self):
        return {**super()._more_tags(), "_xfail_checks": {}}


class ManyOfEach(Undeclared):
    """Is fitted to several rows near each that it is given, some 250 in all, and all of these
    models have one key: the checks' few rows are then enough, and two fits may be compared."""

    key = None

    def _open(self):
        path = os.path.join(self.run_, "guard.key")
        if ManyOfEach.key is None:
            super()._open()
            with open(path, "rb") as file:
                ManyOfEach.key = file.read()
        with open(path, "wb") as file:
            file.write(ManyOfEach.key)
        os.chmod(path, 0o600)
        super()._open()

    def fit(self, X, y, groups=None, progress=None):
        try:
            rows = np.asarray(X, dtype=float)
            usable = rows.ndim == 2 and rows.size > 0 and np.isfinite(rows).all() and y is not None
        except (TypeError, ValueError):
            usable = False
        if usable:
            times = max(1, 250 // len(rows))
            X = np.repeat(rows, times, axis=0)
            X = X + 1e-3 * np.random.default_rng(1).random(X.shape)
            y = np.repeat(np.asarray(y), times, axis=0)
        return super().fit(X, y, groups, progress)


def name_of(check):
    words = check.func.__name__
    return words + str(check.keywords) if check.keywords else words


def failure(estimator, check):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(estimator)
    except Exception as error:
        return error
    return None


@unittest.skipUnless(importlib.util.find_spec("sklearn"),
                     "Debian's python3-sklearn is not installed: its checks are not run")
class CheckEstimator(unittest.TestCase):
    def test_every_check_passes_or_is_declared(self):
        from sklearn.utils.estimator_checks import check_estimator
        quick = lucid.LucidClassifier(time_limit=5, random_state=1)
        passed, declared, failed = [], [], []
        for model, check in check_estimator(quick, True):
            error = failure(model, check)
            name = name_of(check)
            if error is None:
                passed.append(name)
            elif isinstance(error, unittest.SkipTest):
                declared.append(name)
            else:
                failed.append(f"{name}: {type(error).__name__}: {error}")
        print(f"\ncheck_estimator: {len(passed)} passed, {len(declared)} declared, "
              f"{len(failed)} failed")
        self.assertEqual(failed, [])
        self.assertGreater(len(passed), 20)

    def test_what_is_declared_is_refused_for_that_reason_and_passes_without_it(self):
        from sklearn.utils.estimator_checks import check_estimator
        few = {name for name, reason in _CONTRADICTED.items() if reason == _FEW_ROWS}
        refused = {}
        for model, check in check_estimator(Undeclared(random_state=1), True):
            if check.func.__name__ in few:
                refused[name_of(check)] = str(failure(model, check))
        self.assertEqual({name.split("{")[0] for name in refused}, few)
        for name, message in refused.items():
            self.assertRegex(message, "at least 10 units|a single unit decides", name)
        wide = ManyOfEach(arch="1x4", expected_rows=200, random_state=1)
        failed, passed = [], 0
        for model, check in check_estimator(wide, True):
            name = check.func.__name__
            if name in _CONTRADICTED:
                # Bounds that reach a time limit differ, and so would two fits.
                error = failure(model.set_params(time_limit=2 if name in few else 600), check)
                passed += error is None
                if error is not None:
                    failed.append(f"{name_of(check)}: {type(error).__name__}: {error}")
        print(f"\nthe declared ones with 250 rows and one key: {passed} passed, "
              f"{len(failed)} failed")
        self.assertEqual(failed, [])

    def test_pipelines_clones_and_cross_validation_work(self):
        from sklearn.base import clone
        from sklearn.exceptions import NotFittedError
        from sklearn.model_selection import cross_val_score
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import MinMaxScaler
        rng = np.random.default_rng(5)
        x = rng.random((300, 2))
        y = np.where(x[:, 0] > x[:, 1], "more", "less")
        model = lucid.LucidClassifier(arch="2x6", expected_rows=200, random_state=1)
        self.assertEqual(clone(model).get_params(), model.get_params())
        with self.assertRaises(NotFittedError):
            clone(model).predict(x)
        pipeline = make_pipeline(MinMaxScaler(), model)
        self.assertGreater(cross_val_score(pipeline, x, y, cv=2).mean(), 0.7)


if __name__ == "__main__":
    unittest.main()
