"""The bare page replaces a notebook in tests: the properties on which tests of views depend."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import traitlets
from anywidget import AnyWidget

from tests.browser import BarePage, find_chromium

pytestmark = pytest.mark.slow  # a browser

ECHO = """
export default {
  initialize({ model }) {
    model.on("msg:custom", (content, buffers) => {
      const sum = buffers.reduce((sum, it) => sum + it.getUint8(0), 0);
      model.send({ twice: content.number * 2, sum }, undefined, buffers);
    });
  },
  render({ model, el }) {
    const draw = () => (el.textContent = `${model.get("word")} ${model.get("data").byteLength}`);
    model.on("change:word", draw);
    model.on("change:data", draw);
    el.onclick = () => {
      model.set({ word: "clicked", data: new Uint8Array([7, 8, 9]).buffer });
      model.save_changes();
    };
    draw();
    return () => model.send({ gone: el.id });
  },
};
"""


class Echo(AnyWidget):
    _esm = ECHO
    _css = "div { color: rgb(1, 2, 3) }"
    word = traitlets.Unicode("hello").tag(sync=True)
    data = traitlets.Any(b"ab").tag(sync=True)


@pytest.fixture
def echo() -> Echo:
    return Echo()


def _heard(widget: Echo) -> list[tuple[Any, list[bytes]]]:
    heard: list[tuple[Any, list[bytes]]] = []
    widget.on_msg(lambda _, content, buffers: heard.append((content, [bytes(it) for it in buffers])))
    return heard


def test_a_view_shows_state_and_style(bare: BarePage, echo: Echo) -> None:
    view = bare.show(echo)
    assert view.text_content() == "hello 2"
    assert view.evaluate("it => getComputedStyle(it).color") == "rgb(1, 2, 3)"


def test_views_of_one_model_follow_it_from_any_thread(bare: BarePage, echo: Echo) -> None:
    views = [bare.show(echo), bare.show(echo)]
    thread = threading.Thread(target=lambda: setattr(echo, "word", "changed"))
    thread.start()
    thread.join()
    echo.data = b"abcd"
    for view in views:
        bare.until("name => document.getElementById(name).textContent === 'changed 4'", view.get_attribute("id"))


def test_actions_in_the_page_reach_the_widget(bare: BarePage, echo: Echo) -> None:
    first, second = bare.show(echo), bare.show(echo)
    first.click()
    bare.until_here(lambda: (echo.word, echo.data) == ("clicked", b"\x07\x08\x09"))
    assert second.text_content() == "clicked 3"


def test_messages_carry_bytes_both_ways(bare: BarePage, echo: Echo) -> None:
    heard = _heard(echo)
    bare.show(echo)
    echo.send({"number": 21}, [b"\x05x", memoryview(b"\x06")])
    bare.until_here(lambda: heard)
    assert heard == [({"twice": 42, "sum": 11}, [b"\x05x", b"\x06"])]


def test_a_new_front_end_has_the_state_and_not_the_messages(bare: BarePage, echo: Echo) -> None:
    heard = _heard(echo)
    view = bare.show(echo)
    echo.word = "later"
    echo.send({"number": 1})
    bare.reload()
    assert view.text_content() == "later 2"
    echo.send({"number": 2})
    bare.until_here(lambda: heard)
    assert [content["twice"] for content, _ in heard] == [4]


def test_a_hidden_view_is_cleaned_up(bare: BarePage, echo: Echo) -> None:
    heard = _heard(echo)
    view, other = bare.show(echo), bare.show(echo)
    bare.hide(view)
    bare.until_here(lambda: heard)
    assert heard[0][0] == {"gone": "view-1"}
    echo.word = "alone"
    bare.until("() => document.body.textContent.includes('alone')")
    assert other.text_content() == "alone 2"
    assert view.count() == 0


def test_faults_of_page_and_handlers_are_kept(bare: BarePage, echo: Echo) -> None:
    echo.on_msg(lambda *_: 1 / 0)
    view = bare.show(echo)
    bare.page.evaluate("() => setTimeout(() => { throw Error('on purpose') })")
    bare.hide(view)
    bare.until_here(lambda: len(bare.faults) == 2)
    assert {"on purpose" in str(fault) for fault in bare.faults} == {True, False}
    bare.faults.clear()


def test_a_program_that_does_not_start_is_no_chromium(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = tmp_path / "chromium"
    stub.write_text("#!/bin/sh\necho 'install it from elsewhere' >&2\nexit 1\n")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tests.browser.OWN", tmp_path / "none")
    find_chromium.cache_clear()
    try:
        assert find_chromium() is None
    finally:
        find_chromium.cache_clear()
