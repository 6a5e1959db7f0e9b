"""Files of a pond that cannot be read: which one it is, what is wrong with it, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from millpond.support.errors import LostFile, PondError

#: What readers raise for content that is not what was written: JSON's, Arrow's and our own.
_DAMAGE = (ArithmeticError, AttributeError, EOFError, LookupError, NotImplementedError, TypeError, ValueError)


def damaged(path: str, error: BaseException) -> PondError:
    """The error of a file whose content is not what was written."""
    said = " ".join(str(error).split())[:200]
    why = f"it lacks {said}" if isinstance(error, KeyError) else said
    return PondError(f"{path} is damaged: {why}; restore the pond, or this part of it, from a copy")


def lost(path: str) -> LostFile:
    """The error of a file that must be there and is not."""
    return LostFile(f"{path} is missing, and the pond needs it; restore the pond, or this part of it, from a copy")


@contextmanager
def reading(path: str) -> Iterator[None]:
    """While it is read, what is wrong with the content of a file is told with its path.

    Args:
        path: of the file, or of the folder of files that are read as one.

    Raises:
        PondError: the content is not what was written. A file that is not there is not this error's matter.

    Example:
        >>> with reading("pond/pond.json"):
        ...     {}["format"]
        Traceback (most recent call last):
        ...
        millpond.support.errors.PondError: pond/pond.json is damaged: it lacks 'format'; restore ...
    """
    try:
        yield
    except LostFile:
        raise
    except _DAMAGE as error:
        raise damaged(path, error) from error
    except OSError as error:
        if error.errno is not None:  # the file is not there, or its disk fails
            raise
        raise damaged(path, error) from error


__all__ = ["damaged", "lost", "reading"]
