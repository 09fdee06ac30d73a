"""An explorer of one's own function: sliders for its arguments, and what it returns as a picture and a sentence."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from synergy_nb.explore._explorer import Choice, Control, Drawn, Explorer, Range, Value

_SLIDER: Final = (
    "(first value, least, greatest) or (first value, least, greatest, step), in numbers, or a list of texts"
)
_RETURNED: Final = "a Matplotlib figure, the text of an SVG, a sentence, or a picture and a sentence"


def sliders(draw: Callable[..., Any], title: str, controls: Mapping[str, Any]) -> Explorer:
    """Make the explorer; arguments as of :func:`synergy_nb.explore.sliders`."""
    if not callable(draw):
        raise ValueError(f"draw: {type(draw).__name__!r}; expected a function of the values of the sliders")
    made: list[Control] = []
    first: dict[str, Value] = {}
    for name, given in controls.items():
        control, value = _control(name, given)
        made.append(control)
        first[name] = control.checked(value)
    if not made:
        raise ValueError(f"controls: none; expected at least one, such as rate=(100, 0, 500): {_SLIDER}")
    return Explorer(title, "", made, first, lambda **values: _drawn(draw(**values)))


def _control(name: str, given: object) -> tuple[Control, Value]:
    """A control and its first value."""
    label = name.replace("_", " ")
    if isinstance(given, list) and given and all(isinstance(each, str) for each in given):
        return Choice(name, label, tuple(given)), str(given[0])
    numbers = isinstance(given, tuple) and all(isinstance(n, int | float) and not isinstance(n, bool) for n in given)
    if not isinstance(given, tuple) or not numbers or len(given) not in (3, 4):
        raise ValueError(f"{name}: {given!r}; expected {_SLIDER}")
    value, low, high, step = given if len(given) == 4 else (*given, 1)
    if not low < high or not step > 0:
        raise ValueError(f"{name}: {given!r}; expected a least value below the greatest, and a step above 0")
    return Range(name, label, low, high, step), value


def _drawn(returned: object) -> Drawn:
    """What a function has returned, as an explorer shows it."""
    if isinstance(returned, Drawn):
        return returned
    picture, sentence = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, "")
    if isinstance(picture, str) and not picture.lstrip().startswith("<svg"):
        picture, sentence = None, picture
    if hasattr(picture, "savefig"):
        picture = _svg(picture)
    if not isinstance(picture, str | None) or not isinstance(sentence, str):
        raise TypeError(f"the function returned {type(returned).__name__!r}; expected {_RETURNED}")
    return Drawn(picture or "", (), sentence)


def _svg(figure: Any) -> str:
    """A figure of Matplotlib as SVG that may stand in a page, as wide as the page at most."""
    written = io.StringIO()
    figure.savefig(written, format="svg")
    text = written.getvalue()
    svg = text[text.index("<svg") :]
    return re.sub(r"<svg ", '<svg style="max-width:100%;height:auto" ', svg, count=1)
