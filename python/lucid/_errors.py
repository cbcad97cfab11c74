"""Exceptions. Their messages are the one-line messages of the program."""
import sys as _sys


class Error(Exception):
    """What every exception of LUCID is."""


class InvalidInput(Error, ValueError):
    """An argument, option or file content that cannot be used."""


class NotFittedError(InvalidInput, AttributeError):
    """An estimator that is asked before ``fit``. Where scikit-learn is loaded it is that one's
    NotFittedError, too."""


class FileError(Error, OSError):
    """The system refused to read or write a file."""


class Mismatch(Error, ValueError):
    """Files that do not belong together, a proof that is refused, a promise that is not kept."""


class Stopped(Error):
    """Work that was asked to stop. Called again with the same arguments it goes on."""


class InternalError(Error):
    """A fault of LUCID itself."""


class FitWarning(UserWarning):
    """A column that is left out, or something odd about the data or the network."""


class DataConversionWarning(UserWarning):
    """Data of another shape was taken as what it was surely meant to be."""


def _scikit_learns(own):
    """The class, or one that is scikit-learn's class of this name as well if that is loaded."""
    theirs = getattr(_sys.modules.get("sklearn.exceptions"), own.__name__, None)
    return own if theirs is None else type(own.__name__, (own, theirs), {"__doc__": own.__doc__})


def not_fitted(what):
    """The exception for an estimator that is not fitted yet."""
    return _scikit_learns(NotFittedError)(f"this {what} is not fitted yet: call fit")


def conversion_warning():
    """The class of warnings about data that was converted."""
    return _scikit_learns(DataConversionWarning)
