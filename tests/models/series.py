"""Series of which the truth is known, for tests of their statistics."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["fractional_noise"]


def fractional_noise(number: int, hurst: float, seed: int) -> npt.NDArray[np.float64]:
    """Fractional Gaussian noise, exactly: circulant embedding of its autocovariances (Davies and Harte 1987)."""
    lags = np.arange(number + 1.0)
    cov = 0.5 * ((lags + 1) ** (2 * hurst) - 2 * lags ** (2 * hurst) + np.abs(lags - 1) ** (2 * hurst))
    powers = np.fft.fft(np.concatenate([cov, cov[-2:0:-1]])).real
    assert powers.min() > -1e-9
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=len(powers)) + 1j * rng.normal(size=len(powers))
    found: npt.NDArray[np.float64] = np.fft.fft(np.sqrt(np.maximum(powers, 0.0) / len(powers)) * noise).real[:number]
    return found
