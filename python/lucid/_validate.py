"""What an estimator accepts: rows and classes, checked as scikit-learn's estimators check them."""
import warnings as _warnings

import numpy as _np

from ._errors import InvalidInput, conversion_warning


def table(x, missing_refused):
    """Column names (None of an array) and rows of texts, of an array, a list of rows or a data
    frame. missing_refused: whether a cell without a value is an error."""
    if hasattr(x, "toarray"):
        raise TypeError("Sparse data is not supported: pass X.toarray()")
    names = None
    if hasattr(x, "columns") and hasattr(x, "itertuples"):
        names = [str(name) for name in x.columns]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInput(f"X has two columns '{name}'")
        shape = (len(x), len(names))
        rows = [list(row) for row in x.itertuples(index=False, name=None)]
    else:
        array = _np.asarray(x)
        if _np.iscomplexobj(array):
            raise InvalidInput("Complex data not supported: X holds complex numbers")
        if array.ndim != 2:
            raise InvalidInput(f"Expected 2D array, got an array of shape {array.shape} instead. "
                               "Reshape your data: rows and columns")
        shape = array.shape
        rows = array.tolist()
    if shape[0] == 0:
        raise InvalidInput(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is "
                           "required.")
    if shape[1] == 0:
        raise InvalidInput(f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is "
                           "required.")
    return names, [[_cell(value, missing_refused) for value in row] for row in rows]


def is_missing(value):
    """None, NaN, NaT and pandas.NA, which compares to pandas.NA."""
    if value is None:
        return True
    differs = value != value
    return bool(differs) if isinstance(differs, (bool, _np.bool_)) else True


def text(value):
    """As it stands in a CSV; a missing one is empty."""
    if is_missing(value):
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


def _cell(value, missing_refused):
    if isinstance(value, (float, _np.floating)) and _np.isinf(value):
        raise InvalidInput("Input X contains infinity")
    if isinstance(value, (complex, _np.complexfloating)):
        raise InvalidInput("Complex data not supported: X holds complex numbers")
    if isinstance(value, (dict, list, tuple, set, _np.ndarray)):
        raise TypeError(f"a cell of X is a {type(value).__name__}: it must be a number or a word")
    cell = text(value)
    if missing_refused and cell in ("", "nan", "<NA>", "NaT"):
        raise InvalidInput("Input X contains NaN or a missing value: say what becomes of those "
                           "with missing='fill' or missing='drop'")
    return cell


def labels(y, rows):
    """The classes of so many rows, as an array of one dimension."""
    if y is None:
        raise InvalidInput("LucidClassifier requires y to be passed, but the target y is None")
    if hasattr(y, "toarray"):
        raise TypeError("Sparse data is not supported: pass y.toarray()")
    array = _np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        _warnings.warn("A column-vector y was passed when a 1d array was expected. Please change "
                       "the shape of y to (n_samples,), for example using ravel().",
                       conversion_warning(), stacklevel=3)
        array = array.ravel()
    if array.ndim != 1:
        raise InvalidInput(f"y should be a 1d array, got an array of shape {array.shape} instead")
    if len(array) != rows:
        raise InvalidInput("Found input variables with inconsistent numbers of samples: "
                           f"[{rows}, {len(array)}]")
    if _np.iscomplexobj(array):
        raise InvalidInput("Complex data not supported: y holds complex numbers")
    for value in array.tolist():
        if is_missing(value):
            raise InvalidInput("Input y contains NaN")
        if isinstance(value, float) and _np.isinf(value):
            raise InvalidInput("Input y contains infinity")
        if isinstance(value, float) and not value.is_integer():
            raise InvalidInput(f"Unknown label type: continuous. {value!r} is no class: classes "
                               "are whole numbers or words")
    if len(set(array.tolist())) == 1:
        raise InvalidInput(f"y has one class, {array.tolist()[0]!r}, in {rows} row(s), n_samples = "
                           f"{rows}: there must be two or more")
    return array


def groups(groups_, rows):
    """The units of so many rows, as texts."""
    units = [text(value) for value in (groups_.tolist() if hasattr(groups_, "tolist")
                                       else list(groups_))]
    if len(units) != rows:
        raise InvalidInput(f"{len(units)} groups for {rows} rows")
    if "" in units:
        raise InvalidInput(f"groups has no value for row {units.index('')}: every row is "
                           "somebody's")
    return units


def seed_of(random_state):
    """None, or a whole number from whatever scikit-learn takes for one."""
    if random_state is None:
        return None
    if hasattr(random_state, "randint"):  # numpy.random.RandomState
        return int(random_state.randint(0, 2**31 - 1))
    if isinstance(random_state, (int, _np.integer)) and random_state >= 0:
        return int(random_state)
    raise InvalidInput(f"random_state is {random_state!r}: None, a whole number that is not "
                       "negative, or a numpy.random.RandomState")
