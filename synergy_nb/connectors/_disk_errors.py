"""What the errors of the system mean to a sink."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable

__all__ = ["explained"]

#: Errors after which nobody could write, however long they wait.
_FOR_GOOD: Final = {
    errno.EACCES: "a place where this peer may write",
    errno.EPERM: "a place where this peer may write",
    errno.EROFS: "a place where this peer may write",
    # each folder of the path is made: where one is not there after that, as in /proc, nobody can make any
    errno.ENOENT: "a place where files can be made",
    errno.EINVAL: "a place where files can be made",
    errno.ENOSYS: "a place where files can be made",
    errno.ENOTSUP: "Linux or macOS, and a place where files can be made and locked",
    errno.ENOTDIR: "a path whose folders are folders",
    errno.EISDIR: "the path of a file",
    errno.EEXIST: "the path of a folder",
    errno.ENAMETOOLONG: "a shorter path",
    errno.ELOOP: "a path without links in a circle",
}


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Say what an error of the system means to the sink that writes to a path."""
    try:
        yield
    except (SinkFailed, SinkUnavailable):
        raise
    except BlockingIOError:
        raise SinkUnavailable(f"{str(path)!r}: another process writes to it") from None
    except OSError as error:
        said = f"{str(path)!r}: {error.strerror or error}"
        if error.errno == errno.ENOTDIR and error.filename is not None:
            said += f" ({str(error.filename)!r})"
        expected = _FOR_GOOD.get(error.errno or 0)
        if expected is not None:
            raise SinkFailed(f"{said}; expected {expected}") from None
        raise SinkUnavailable(said) from None
