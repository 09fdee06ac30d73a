"""The widget of all explorers: controls, and a picture, numbers and a sentence that depend on their values.

An explorer is one function from the values of its controls to a :class:`Drawn`. So it has no formula of its own, and
can be tested without a browser. A *page* is a display of it in a browser, which sends the values of its controls. A
value that a control does not have is refused, from a page as from Python. Each control is a trait of its own, too, so
that it can be observed, and linked with any ipywidget, here or in the page. A button that is pressed in a page computes
in a thread, as it may take long: the page says so, and its other controls go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any, NamedTuple, TypeAlias

import traitlets

from synergy_nb.widgets.last_picture import StillView

Value: TypeAlias = float | str
Values: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True)
class Range:
    """A slider."""

    # name, label: name of the value, and the text of the slider
    name: str
    label: str
    # low, high: least and greatest value
    low: float
    high: float
    step: float = 1  # distance of two neighbouring values; the values are integers if it is one
    unit: str = ""  # unit that is written after the value, with the space before it

    def checked(self, value: object) -> float:
        """Return the nearest value of the slider; raise a ValueError if the value is no number in its range."""
        valid = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not valid or not self.low <= float(value) <= self.high:  # type: ignore[arg-type]
            raise ValueError(f"{self.name}: {value!r}; expected a number from {self.low:g} to {self.high:g}")
        number = self.low + round((float(value) - self.low) / self.step) * self.step  # type: ignore[arg-type]
        return round(number) if isinstance(self.step, int) else round(min(number, self.high), 10)

    def to_page(self) -> dict[str, Any]:
        """Return the control as plain values for a page."""
        return {"kind": "range", "name": self.name, "label": self.label, "low": self.low, "high": self.high,
                "step": self.step, "unit": self.unit}  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """A choice of one of several texts."""

    # name, label: name of the value, and the text of the choice
    name: str
    label: str
    options: tuple[str, ...]  # texts of which one is chosen

    def checked(self, value: object) -> str:
        """Return the value; raise a ValueError if it is no option."""
        if value not in self.options:
            raise ValueError(f"{self.name}: {value!r}; expected one of {', '.join(self.options)}")
        return str(value)

    def to_page(self) -> dict[str, Any]:
        """Return the control as plain values for a page."""
        return {"kind": "choice", "name": self.name, "label": self.label, "options": list(self.options)}


Control: TypeAlias = Range | Choice


class Drawn(NamedTuple):
    """What an explorer shows for one set of values."""

    picture: str  # picture as the text of an SVG
    # pairs of a name and a value with its unit, in the order in which they are shown
    numbers: tuple[tuple[str, str], ...]
    sentence: str  # sentence that says what the picture shows


class Chosen(traitlets.TraitType[Any, Any]):
    """The value of one control."""

    def __init__(self, control: Control) -> None:
        super().__init__(default_value=None, allow_none=True)
        self._control = control

    def validate(self, obj: Any, value: Any) -> Any:
        """Return the nearest value that the control has."""
        try:
            return self._control.checked(value)
        except ValueError as wrong:
            raise traitlets.TraitError(str(wrong)) from None


class Explorer(StillView):
    """A picture of an algorithm with controls.

    The value of each control is a trait of the control's name, unless a widget has something of that name; ``values``
    has all of them.

    >>> from synergy_nb import explore
    >>> loads = explore.bursts()
    >>> loads.observe(lambda change: print(change.name, change.old, "->", change.new), "load")
    >>> loads.load = 35
    load 50 -> 35
    >>> loads.values["load"]
    35
    """

    _esm = resources.files("synergy_nb.explore").joinpath("explorer.js").read_text("utf-8")
    _css = resources.files("synergy_nb.explore").joinpath("explorer.css").read_text("utf-8")
    title = traitlets.Unicode().tag(sync=True)  # heading of the explorer
    equation = traitlets.Unicode().tag(sync=True)  # equation of the paper with its number, as HTML
    controls: traitlets.List[Any] = traitlets.List().tag(sync=True)  # controls, in the order in which they are shown
    # text of each button to a function that gets the present values and returns those to set
    buttons: traitlets.List[Any] = traitlets.List().tag(sync=True)
    # sentence that says why a button may take long, which a page shows while it does
    slow = traitlets.Unicode().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)  # name of each control to its first value
    picture = traitlets.Unicode().tag(sync=True)
    numbers: traitlets.List[Any] = traitlets.List().tag(sync=True)
    sentence = traitlets.Unicode().tag(sync=True)
    drawings = traitlets.Int(0).tag(sync=True)  # number of pictures so far: a page waits for the next one

    def __init__(
        self,
        title: str,
        equation: str,
        controls: Sequence[Control],
        values: Values,
        # function that gets the values of the controls as keyword arguments, and draws them
        draw: Callable[..., Drawn],
        buttons: Mapping[str, Callable[[dict[str, Any]], Values]] | None = None,
        *,
        slow: str = "",
    ) -> None:
        self._controls = {control.name: control for control in controls}
        self._draw = draw
        #: Function that runs another one in a thread; a test may replace it.
        self._beside: Callable[[Callable[[], None]], None] = _in_thread
        self._button_actions = dict(buttons or {})
        self._linked = [name for name in self._controls if not hasattr(Explorer, name)]
        self.add_traits(**{name: Chosen(self._controls[name]).tag(sync=True) for name in self._linked})
        first = self._checked(values)
        drawn = draw(**first)
        super().__init__(
            title=title,
            equation=equation,
            controls=[control.to_page() for control in controls],
            buttons=list(self._button_actions),
            slow=slow,
            values=first,
            picture=drawn.picture,
            numbers=[list(pair) for pair in drawn.numbers],
            sentence=drawn.sentence,
            **{name: first[name] for name in self._linked},
        )
        self._last_valid = first
        self.observe(self._changed, "values")
        if self._linked:
            self.observe(self._moved, self._linked)
        self.on_msg(lambda _, content, _buffers: self.on_page_message(content))

    def set(self, **values: Value) -> Explorer:
        """Set values of controls, and draw the picture again, in all pages.

        Raises ``ValueError`` if there is no such control, or it does not have the value.
        """
        self.values = self._checked({**self._last_valid, **values})
        return self

    def press(self, button: str) -> None:
        """Press a button; one that does not exist does nothing."""
        if button in self._button_actions:
            self.set(**self._button_actions[button](dict(self._last_valid)))

    def on_page_message(self, content: Mapping[str, Any]) -> None:
        """Press a button for a page: compute in a thread, then set the values, and tell the pages that it is done."""
        button = str(content.get("button"))
        if content.get("kind") != "press" or button not in self._button_actions:
            return
        self.send({"kind": "pressing", "button": button})
        before = dict(self._last_valid)
        loop = None
        with contextlib.suppress(RuntimeError):
            loop = asyncio.get_running_loop()

        def compute() -> None:
            found: Values = {}
            error = ""
            try:
                found = self._button_actions[button](dict(before))
            except Exception as failed:  # noqa: BLE001 - a page must not wait for ever
                error = f"{button}: {failed}"
            changed = {name: value for name, value in found.items() if before.get(name) != value}
            if loop is None:
                self._pressed(button, changed, error)
            else:  # widgets are changed by the thread of the kernel
                loop.call_soon_threadsafe(self._pressed, button, changed, error)

        self._beside(compute)

    def _pressed(self, button: str, changed: Values, error: str) -> None:
        """Set what a button has changed; what was set meanwhile stays as it is."""
        self.set(**changed)
        self.send({"kind": "pressed", "button": button, "error": error})

    def to_svg(self) -> str:
        """The picture at the present values, as a self-contained SVG."""
        return self.picture

    def __repr__(self) -> str:
        numbers = "; ".join(f"{name} {value}" for name, value in self.numbers)
        told = " ".join(filter(None, (numbers and f"{numbers}.", self.sentence)))
        return ": ".join(filter(None, (self.title, told)))

    def _repr_mimebundle_(self, **options: Any) -> Any:
        live = super()._repr_mimebundle_(**options)
        data, metadata = live if live is not None else ({}, {})
        said = f"<p>{escape(repr(self))}</p>"
        return {**data, "text/plain": repr(self), "text/html": f"<div>{self.picture}{said}</div>"}, metadata

    def _checked(self, values: Values) -> dict[str, Value]:
        unknown = [name for name in values if name not in self._controls]
        if unknown:
            raise ValueError(f"{unknown[0]}: {values[unknown[0]]!r}; expected one of {', '.join(self._controls)}")
        return {name: control.checked(values.get(name)) for name, control in self._controls.items()}

    def _moved(self, change: Any) -> None:
        """Draw the picture of a value that was set as a trait."""
        if self.values.get(change.name) != change.new:
            self.set(**{change.name: change.new})

    def _changed(self, _change: object) -> None:
        """Draw the picture of new values; values that are not valid are replaced by the last valid ones."""
        checked: dict[str, Value] | None = None
        with contextlib.suppress(ValueError, TypeError):
            checked = self._checked(self.values)
        if checked is None:  # a page sent a value that its control does not have: it gets back the last valid ones
            checked = self._last_valid
        if checked != self.values:
            with self.hold_trait_notifications():
                self.unobserve(self._changed, "values")
                self.values = dict(checked)
            self.observe(self._changed, "values")
        drawn = self._draw(**checked)
        self._last_valid = checked
        with self.hold_sync():
            self.picture = drawn.picture
            self.numbers = [list(pair) for pair in drawn.numbers]
            self.sentence = drawn.sentence
            self.drawings += 1
            for name in self._linked:
                setattr(self, name, checked[name])
        self.keep_picture()


def _in_thread(task: Callable[[], None]) -> None:
    threading.Thread(target=task, name="synergy explorer", daemon=True).start()
