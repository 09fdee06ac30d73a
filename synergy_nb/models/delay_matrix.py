"""Measured delays between the sites of a network: matrices of round-trip times, read and checked.

Both drivers use them: the runtime delays its links, the simulator its network.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["Matrix", "one_way", "read_rtt"]

Matrix = npt.NDArray[np.float64]


def one_way(rtt_ms: npt.ArrayLike) -> Matrix:
    """Compute one-way delays in seconds from round-trip times: half of the mean of both directions, 0 within a site.

    Parameters
    ----------
    rtt_ms
        Round-trip times in ms, shape (sites, sites), finite, not negative.

    Raises
    ------
    ValueError
        If ``rtt_ms`` is no such matrix.

    Examples
    --------
    >>> one_way([[0, 90], [110, 0]]).tolist()
    [[0.0, 0.05], [0.05, 0.0]]
    """
    rtt = np.asarray(rtt_ms, dtype=np.float64)
    if rtt.ndim != 2 or rtt.shape[0] != rtt.shape[1] or not rtt.size:
        raise ValueError(f"rtt_ms: shape {rtt.shape}; expected a square matrix (sites, sites)")
    if not np.isfinite(rtt).all() or (rtt < 0).any():
        raise ValueError("rtt_ms: has entries that are negative or not finite; expected round-trip times in ms")
    delay: Matrix = (rtt + rtt.T) / 4e3
    np.fill_diagonal(delay, 0.0)
    return delay


def read_rtt(path: str | Path, field: str = "path") -> Matrix:
    """Read the array ``rtt_ms`` of an ``.npz`` file, such as measured PlanetLab round-trip times.

    ``field``: name of the path in the message of an error.

    Returns: round-trip times in ms, unchanged.

    Raises ``ValueError`` if the file, or the array in it, does not exist.
    """
    expected = "an .npz file with an array rtt_ms of round-trip times in ms"
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if "rtt_ms" not in arrays:
                raise ValueError(f"it has the arrays {', '.join(arrays.files)}")
            return np.asarray(arrays["rtt_ms"], dtype=np.float64)
    except (OSError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{field}: {str(path)!r}; expected {expected}: {str(error).splitlines()[0]}") from None
