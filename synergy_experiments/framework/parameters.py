"""Set-ups of experiments: named parameters, their values at each scale, and the values that a user sets.

A parameter has a value for a quick run and one for a run at the paper's scale. ``--set name=value`` replaces either;
an unknown name, or an invalid value, is one clear error before anything runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from synergy_nb.errors import SynergyError
from synergy_nb.plan.terms.units import WrongValue, nearest

__all__ = [
    "SCALES",
    "IncompatibleParameters",
    "Parameter",
    "Scale",
    "Setup",
    "Value",
    "at_scale",
    "choice",
    "files",
    "flag",
    "number",
    "numbers",
    "parse",
    "several",
    "whole",
    "wholes",
]

Scale: TypeAlias = Literal["quick", "paper"]
Value: TypeAlias = bool | int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | None
Setup: TypeAlias = Mapping[str, Value]

SCALES: Final[tuple[Scale, ...]] = ("quick", "paper")


class IncompatibleParameters(SynergyError, ValueError):
    """Values of parameters are valid one by one, but not together."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of an experiment.

    Made by :func:`whole`, :func:`number`, :func:`flag`, :func:`choice`, :func:`wholes`, :func:`numbers`,
    :func:`several` or :func:`files`.

    Parameters
    ----------
    about
        Meaning of the parameter, with its unit.
    quick, paper
        Value for a quick run, and value for a run at the paper's scale.
    read
        Function that returns the value of a text, or raises :class:`~synergy_nb.plan.terms.units.WrongValue`.
    usable
        Function that returns the value that replaces a default on a machine without the data that it needs.
    """

    about: str
    quick: Value
    paper: Value
    read: Callable[[str], Value]
    usable: Callable[[Value], Value] = lambda value: value


def _one(text: str, expected: str, least: float, most: float, kind: Callable[[str], float]) -> float:
    """Read one number."""
    try:
        value = kind(text)
    except ValueError:
        raise WrongValue(text, expected) from None
    if not least <= value <= most or not math.isfinite(value):
        raise WrongValue(text, expected)
    return value


def _bounds(noun: str, least: float, most: float) -> str:
    """Text of an expected number with its range."""
    return f"{noun} from {least:g}" + (f" to {most:g}" if most < math.inf else "")


def whole(about: str, quick: int, paper: int | None = None, *, least: int = 1, most: float = math.inf) -> Parameter:
    """Declare a parameter that is a whole number.

    Parameters
    ----------
    about, quick, paper
        Meaning and values, see :class:`Parameter`; ``paper`` is ``quick`` by default, also in the functions below.
    least, most
        Least and greatest value.

    >>> whole("peers", 100, 500).read("88")
    88
    """
    expected = _bounds("a whole number", least, most)
    return Parameter(
        about, quick, quick if paper is None else paper, lambda text: int(_one(text, expected, least, most, int))
    )


def number(
    about: str, quick: float, paper: float | None = None, *, least: float = 0.0, most: float = math.inf
) -> Parameter:
    """Declare a parameter that is a number; arguments as of :func:`whole`."""
    expected = _bounds("a number", least, most)
    return Parameter(
        about, quick, quick if paper is None else paper, lambda text: _one(text, expected, least, most, float)
    )


def wholes(
    about: str,
    quick: Sequence[int],
    paper: Sequence[int] | None = None,
    *,
    least: int = 1,
    most: float = math.inf,
    count: int | None = None,
) -> Parameter:
    """Declare a parameter of whole numbers in ascending order, separated by commas; ``count`` is their number.

    >>> wholes("requests", [100], [100, 500]).read("20,40")
    (20, 40)
    """
    each = _bounds("whole numbers", least, most)
    expected = f"{count or 'some'} {each}, separated by commas"

    def read(text: str) -> tuple[int, ...]:
        found = tuple(int(_one(part, expected, least, most, int)) for part in _parts(text, expected, count))
        _check_rising(found, text, expected)
        return found

    return Parameter(about, tuple(quick), tuple(quick if paper is None else paper), read)


def numbers(
    about: str,
    quick: Sequence[float],
    paper: Sequence[float] | None = None,
    *,
    least: float = 0.0,
    most: float = math.inf,
    count: int | None = None,
) -> Parameter:
    """Declare a parameter of numbers; arguments as of :func:`wholes`."""
    each = _bounds("numbers", least, most)
    expected = f"{count or 'some'} {each}, separated by commas"

    def read(text: str) -> tuple[float, ...]:
        found = tuple(_one(part, expected, least, most, float) for part in _parts(text, expected, count))
        _check_rising(found, text, expected)
        return found

    return Parameter(about, tuple(quick), tuple(quick if paper is None else paper), read)


def choice(about: str, of: Sequence[str], quick: str | None = None, paper: str | None = None) -> Parameter:
    """Declare a parameter that is one of the names ``of``, by default the first.

    >>> choice("network", ["transit-stub", "measured"]).read("mesured")
    Traceback (most recent call last):
        ...
    synergy_nb.plan.terms.units.WrongValue: 'mesured'; expected one of transit-stub, measured; did you mean 'measured'?
    """
    first = of[0] if quick is None else quick

    def read(text: str) -> str:
        if text not in of:
            raise WrongValue(text, f"one of {', '.join(of)}", nearest(text, of))
        return text

    return Parameter(about, first, first if paper is None else paper, read)


def several(about: str, of: Sequence[str], quick: Sequence[str] | None = None) -> Parameter:
    """Declare a parameter of several of the names ``of``, separated by commas, by default all.

    >>> several("policies", ["none", "ours, quick", "ours"]).read("ours, quick, none")
    ('ours, quick', 'none')
    """
    expected = f"some of {', '.join(of)}, separated by commas"

    def read(text: str) -> tuple[str, ...]:
        parts, chosen = _parts(text, expected, text.count(",") + 1), list[str]()
        while parts:
            names = {end: ", ".join(parts[:end]) for end in range(1, len(parts) + 1)}
            count = max((count for count, name in names.items() if name in of), default=0)  # names may have commas
            if not count:
                raise WrongValue(parts[0], expected, nearest(parts[0], of))
            chosen.append(names[count])
            parts = parts[count:]
        if len(set(chosen)) < len(chosen):
            raise WrongValue(text, expected)
        return tuple(chosen)

    default = tuple(of if quick is None else quick)
    return Parameter(about, default, default, read)


def flag(about: str, quick: bool = False, paper: bool | None = None) -> Parameter:
    """Declare a parameter that is true or false, also written yes or no, on or off, 1 or 0.

    >>> flag("refined").read("yes")
    True
    """

    def read(text: str) -> bool:
        for value, words in enumerate((("false", "no", "off", "0"), ("true", "yes", "on", "1"))):
            if text.casefold() in words:
                return bool(value)
        raise WrongValue(text, "true or false")

    return Parameter(about, quick, quick if paper is None else paper, read)


def files(about: str) -> Parameter:
    """Declare a parameter of paths of existing files, separated by commas; none by default."""

    def read(text: str) -> tuple[str, ...]:
        expected = "existing files, separated by commas"
        chosen = tuple(_parts(text, expected, None))
        for each in chosen:
            if not Path(each).is_file():
                raise WrongValue(each, expected)
        return chosen

    return Parameter(about, (), (), read)


def _parts(text: str, expected: str, count: int | None) -> list[str]:
    """Divide a text at commas; no part may be empty and, unless ``count`` is given, no part may occur twice."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts) or (count is not None and len(parts) != count) or len(set(parts)) < len(parts) != count:
        raise WrongValue(text, expected)
    return parts


def _check_rising(found: Sequence[float], text: str, expected: str) -> None:
    if list(found) != sorted(found):
        raise WrongValue(text, f"{expected}, in ascending order")


def at_scale(parameters: Mapping[str, Parameter], scale: Scale) -> dict[str, Value]:
    """Return the set-up of an experiment at a scale."""
    return {name: each.usable(each.quick if scale == "quick" else each.paper) for name, each in parameters.items()}


def parse(given: Iterable[str], known: Sequence[Mapping[str, Parameter]]) -> list[dict[str, Value]]:
    """Parse ``--set`` texts into one mapping for each experiment, with the parameters of that experiment.

    Parameters
    ----------
    given
        Texts ``name=value``.
    known
        Parameters of each experiment.

    Raises
    ------
    ValueError
        If no experiment has a parameter of that name, or a value is invalid.

    Examples
    --------
    >>> parse(["peers=88"], [{"peers": whole("peers", 100)}, {"rate": number("tuples/s", 20.0)}])
    [{'peers': 88}, {}]
    """
    chosen: list[dict[str, Value]] = [{} for _ in known]
    names = sorted({name for parameters in known for name in parameters})
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise WrongValue(text, "name=value")
        if name not in names:
            raise WrongValue(name, f"one of {', '.join(names)}", nearest(name, names))
        for parameters, values in zip(known, chosen, strict=True):
            if name in parameters:
                try:
                    values[name] = parameters[name].read(value.strip())
                except WrongValue as error:
                    raise ValueError(f"{name}: {error}") from None
    return chosen
