"""Exceptions. Their messages are the one-line messages of the program."""


class Error(Exception):
    """What every exception of LUCID is."""


class InvalidInput(Error, ValueError):
    """An argument, option or file content that cannot be used."""


class FileError(Error, OSError):
    """The system refused to read or write a file."""


class Mismatch(Error):
    """Files that do not belong together, a proof that is refused, a promise that is not kept."""


class Stopped(Error):
    """Work that was asked to stop. Called again with the same arguments it goes on."""


class InternalError(Error):
    """A fault of LUCID itself."""
