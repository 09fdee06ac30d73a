"""An editor without a page: what it sends is collected, and messages of a page are answered."""

from __future__ import annotations

from typing import Any

from synergy_nb.widgets.plan_editor import PlanEditor


class Editor(PlanEditor):
    """An editor that records what it sends to its pages, in order, with the version of the document at that time.

    ``waits``: whether a message of a page returns when it is answered, also where that takes long.
    """

    def __init__(self, *arguments: Any, waits: bool = False, **options: Any) -> None:
        self.sent: list[tuple[int, dict[str, Any]]] = []
        super().__init__(*arguments, **options)
        if waits:
            self._beside = lambda task: task()

    def send(self, content: dict[str, Any], buffers: Any = None) -> None:
        self.sent.append((self.document["version"], content))


def ask(editor: Editor, kind: str, **contents: Any) -> dict[str, Any]:
    """Send a message of a page, and return the answer."""
    before = len(editor.sent)
    editor.on_page_message({"type": kind, "id": 7, **contents})
    answers = [content for _, content in editor.sent[before:]]
    assert [answer["id"] for answer in answers] == [7]
    return answers[0]
