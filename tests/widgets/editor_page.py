"""The page of an editor in a browser, as a user sees and handles it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from synergy_nb.widgets.plan_editor import PlanEditor
from tests.browser import ARTEFACTS, BarePage

if TYPE_CHECKING:
    from playwright.sync_api import Locator


class Page:
    """One view of an editor, and what people do in it.

    Parameters
    ----------
    bare
        The page.
    editor
        The editor that is shown.
    """

    def __init__(self, bare: BarePage, editor: PlanEditor) -> None:
        self.bare = bare
        self.editor = editor
        self.view = bare.show(editor)
        self.keyboard, self.mouse = bare.page.keyboard, bare.page.mouse
        bare.until("name => document.getElementById(name).synergyEditor", self.view.get_attribute("id"))

    def node(self, name: str) -> Locator:
        return self.view.locator(f".node[data-node='{name}']")

    def field(self, name: str) -> Locator:
        return self.view.locator(f".form [data-field='{name}']")

    def palette(self, kind: str) -> Locator:
        return self.view.locator(f".palette button[data-kind={kind}]")

    def button(self, name: str) -> Locator:
        return self.view.get_by_role("button", name=name, exact=True)

    def fill(self, name: str, text: str) -> None:
        """Type into a field, and leave it by Enter."""
        self.field(name).click()
        self.keyboard.press("Control+A")
        self.keyboard.type(text)
        self.keyboard.press("Enter")

    def type(self, *keys: str) -> None:
        """Press keys, or type texts, which begin with a space."""
        for key in keys:
            if key.startswith(" "):
                self.keyboard.type(key[1:])
            else:
                self.keyboard.press(key)

    @contextlib.contextmanager
    def typing_goes_on(self) -> Iterator[None]:
        """Have no long timer that begins meanwhile end: a text is not committed because a busy machine pauses."""
        page = self.bare.page
        page.evaluate("""() => {
            const start = window.setTimeout;
            window.startTimer = start;
            window.setTimeout = (call, time, ...more) => (time >= 500 ? 0 : start(call, time, ...more));
        }""")
        try:
            yield
        finally:
            page.evaluate("() => { window.setTimeout = window.startTimer; }")

    def drag(self, start: Locator, end: Locator) -> None:
        """Drag from the middle of one element to that of another."""
        self.still()
        for place, act in ((start, self.mouse.down), (end, self.mouse.up)):
            box = place.bounding_box()
            assert box is not None
            self.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=6)
            act()

    def still(self) -> None:
        """Wait until the picture has come to rest and every edit has been checked."""
        self.bare.until(
            """name => {
                const { editor, scene, frame } = document.getElementById(name).synergyEditor;
                return !editor.edits.pending.length && !frame && !scene.moving(performance.now());
            }""",
            self.view.get_attribute("id"),
        )

    def said(self) -> list[str]:
        """What was announced to screen readers at last."""
        self.still()
        return self.view.locator(".announcement[aria-live] p").all_text_contents()

    def shoot(self, name: str) -> None:
        """Keep a picture for people to look at."""
        self.still()
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        self.bare.page.screenshot(path=ARTEFACTS / f"{name}.png")
