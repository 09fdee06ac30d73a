"""What a command that takes long says of its progress where its output goes to a file."""

from __future__ import annotations

import pytest

from synergy_nb.cli import _console as console


def test_a_long_stage_says_every_minute_how_long_the_rest_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(console.err, "_width", 200)
    with console.Bars() as bars:
        bars.stage("reproducing C9")
        bars.share(0.2)  # a fifth was known already
        for done in range(1, 9):
            now[0] += 20.0
            bars.share(0.2 + 0.1 * done)
        bars.stage("reproducing C11")
        bars.share(1.0)
    assert capsys.readouterr().err.splitlines() == [
        "· reproducing C9",
        "· reproducing C9: 50% done, about 100 s left",
        "· reproducing C9: 80% done, about 40 s left",
        "· reproducing C11",
    ]
