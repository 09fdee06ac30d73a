"""The stage: a widget that steps through the replay of one request, message by message.

The page receives the whole replay once, and moves through it without the kernel. The number of the moment and the
arrangement of the peers are shared, so Python can set them and read them. The notebook's file holds neither the replay
nor the script, but a picture of the moment that was shown last (:mod:`synergy_nb.widgets.last_picture`).
"""

from __future__ import annotations

from typing import Any

import traitlets

from synergy_nb.recording.moments import Replay
from synergy_nb.widgets._stage_picture import ARRANGEMENTS, default_arrangement, svg
from synergy_nb.widgets.bundled_view import BundledView

__all__ = ["ProtocolStage"]


class ProtocolStage(BundledView):
    """A stage, on which one steps through a replay.

    Parameters
    ----------
    replay
        Replay to show.

    Attributes
    ----------
    step : int
        Number of the moment that is shown, from 0.
    arrangement : str
        Arrangement of the peers: ``ring`` or ``map``.

    Examples
    --------
    >>> from synergy_nb.recording.moments import Moment, Replay
    >>> moments = (Moment(0.0, "command", "", "peer-1", "Submit plan", "a plan"),)
    >>> stage = ProtocolStage(Replay("r1", "plan", {}, "peer-1", "running", "messages", (), (), moments, ()))
    >>> stage.step, stage.arrangement
    (0, 'ring')
    >>> stage.step = 1
    Traceback (most recent call last):
    ...
    traitlets.traitlets.TraitError: step: 1; expected a moment from 0 to 0
    >>> stage.close()
    """

    SCRIPT = "protocolstage"
    step = traitlets.Int(0).tag(sync=True)
    arrangement = traitlets.Unicode("ring").tag(sync=True)

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        super().__init__(arrangement=default_arrangement(replay))
        self.observe(lambda _: self.keep_picture(), ["step", "arrangement"])
        self.on_msg(lambda _, content, _buffers: self.on_page_message(str(content.get("kind"))))

    @traitlets.validate("step")
    def _check_step(self, proposal: Any) -> int:
        last = max(len(self.replay.moments) - 1, 0)
        step: int = proposal["value"]
        if not 0 <= step <= last:
            raise traitlets.TraitError(f"step: {step}; expected a moment from 0 to {last}")
        return step

    @traitlets.validate("arrangement")
    def _check_arrangement(self, proposal: Any) -> str:
        arrangement: str = proposal["value"]
        if arrangement not in ARRANGEMENTS or (arrangement == "map" and default_arrangement(self.replay) != "map"):
            known = "ring" if default_arrangement(self.replay) == "ring" else " or ".join(ARRANGEMENTS)
            raise traitlets.TraitError(f"arrangement: {arrangement!r}; expected {known}")
        return arrangement

    def on_page_message(self, kind: str) -> None:
        """Handle a message of a page: ``bundle`` requests the script, ``ready`` the replay.

        Parameters
        ----------
        kind
            Kind of the message; others are ignored.
        """
        if kind == "bundle":
            self.send_bundle()
        elif kind == "ready":
            self.send({"kind": "stage", "replay": self.replay.to_dict()})

    def to_svg(self) -> str:
        """The moment that is shown as one self-contained SVG."""
        return svg(self.replay, self.step, self.arrangement)

    def to_text(self) -> str:
        """All moments as text for a terminal."""
        return self.replay.to_text()

    def close(self) -> None:
        """Remove the stage from the pages; its last picture remains."""
        self._last_picture.changed(self._drawn, final=True)
        super().close()

    def _drawn(self) -> tuple[str, str]:
        """The replay in words, and the moment that is shown as a picture."""
        return repr(self.replay), f"<div>{self.to_svg()}</div>"

    def __repr__(self) -> str:
        return f"ProtocolStage of {self.replay!r}"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        note, data, metadata = self._live(options, "The picture shows one moment.")
        text, drawn = self._drawn()
        return {**data, "text/plain": text, "text/html": f"{note}{drawn}"}, metadata
