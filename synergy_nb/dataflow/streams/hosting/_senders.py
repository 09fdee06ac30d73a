"""Which frames a peer may send: a reader speaks for itself, and a stream comes from the peer that makes it.

The sender is what the driver says, which takes it from the certificate of the link. A frame names its reader and its
output; what a peer says of a reader at another peer, or of a stream that another peer makes, is refused. A peer that
this one does not know to make a stream is believed only if it has a copy of the component that made it last.
"""

from __future__ import annotations

from synergy_nb.dataflow.streams.hosting._hosted_components import HostedComponents
from synergy_nb.dataflow.streams.hosting._known_deployments import KnownDeployments
from synergy_nb.dataflow.streams.log.frames import (
    Ack,
    ComponentState,
    Data,
    Frame,
    PieceReply,
    PieceRequest,
    Subscribe,
    Unsubscribe,
)
from synergy_nb.dataflow.streams.log.values import COPY, Reader

__all__ = ["Senders"]


class Senders:
    """Compares the senders of frames with what a peer knows of readers and producers."""

    def __init__(self, known: KnownDeployments, hosted: HostedComponents) -> None:
        self._known = known
        self._hosted = hosted

    def refusal(self, sender: str, frame: Frame) -> str:
        """Return why a frame of another peer is refused; empty if it is not."""
        match frame:
            case Ack() | PieceRequest():
                return "" if frame.reader.peer == sender else f"it reads at {frame.reader.peer}"
            case Subscribe():
                return self._subscribes(sender, frame)
            case Data() if frame.reader.port != COPY:
                return self._makes(sender, frame.reader, frame)
            case Data() | ComponentState() | PieceReply():
                made = self._known.assignment(frame.output.application, frame.output.operator)
                right = made is None or sender == made.active or frame.output.epoch != made.epoch
                return "" if right else f"{made.active} executes it" if made is not None else ""
            case Unsubscribe() if frame.reason and frame.reader.port >= 0:
                return self._makes(sender, frame.reader, frame)
        return ""

    def _subscribes(self, sender: str, frame: Subscribe) -> str:
        """A reader subscribes itself, and its follower, so that this has the stream sooner."""
        reader = frame.reader
        if reader.peer == sender:
            return ""
        component = self._hosted.producer(frame.output)
        cursors = () if component is None else component.log.cursors
        if any(each[:3] == reader[:3] and each.peer == sender for each in cursors):
            return ""
        return f"it reads at {reader.peer}"

    def _makes(self, sender: str, reader: Reader, frame: Data | Unsubscribe) -> str:
        """The stream of an input comes from the peer that makes it, or has made it until a moment ago."""
        component = self._hosted.found.get((reader.application, reader.operator))
        port = None if component is None else component.ports.get(reader.port)
        if port is None or not port.peer or sender in (port.peer, port.former):
            return ""
        output = frame.output
        made = self._known.assignment(output.application, output.operator)
        if output.epoch > port.epoch and (made is None or sender in (made.active, *made.copies)):
            return ""
        return "" if output.epoch not in (port.epoch, port.older, port.epoch + 1) else f"{port.peer} makes it"
