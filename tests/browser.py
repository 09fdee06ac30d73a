"""A real Chromium for tests, and a bare page in it that joins the real bundle of a view to its real widget.

The page has no server: Playwright answers its one request. Messages of a widget wait in a queue, from any thread, until
the page takes them, which it does while the test waits for something in the page: so a test stays a plain sequence.
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import queue
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import pytest
from comm.base_comm import BaseComm

if TYPE_CHECKING:
    from anywidget import AnyWidget
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, ViewportSize

__all__ = [
    "ARTEFACTS",
    "DEADLINE",
    "NO_CHROMIUM",
    "BarePage",
    "bare",
    "browser",
    "find_chromium",
    "page",
    "profile",
    "tab",
]

ROOT: Final = Path(__file__).resolve().parent.parent
ARTEFACTS: Final = ROOT / "build" / "artefacts"  # screenshots and the like, for people to look at
DEADLINE: Final = 60.0  # seconds that something in a page may take on a slow machine
ADDRESS: Final = "https://bare.test/"
VIEWPORT: Final[ViewportSize] = {"width": 1000, "height": 800}
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OWN: Final = ROOT / ".venv" / "chromium" / "chromium"  # put there by .ci/setup on machines that have none
FLAGS: Final = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NO_CHROMIUM: Final = (
    "no Chromium: install one (Debian: apt-get install chromium), or run .ci/setup test, which tries to"
)


@functools.cache
def find_chromium() -> str | None:
    """Return the path of a Chromium that starts: the machine's, or the one that ``.ci/setup`` put into ``.venv``."""
    for name in (*NAMES, str(OWN)):
        path = shutil.which(name)
        if path is None:
            continue
        try:
            # Some systems have a program of that name which only says how to install one.
            done = subprocess.run([path, "--version"], capture_output=True, timeout=DEADLINE, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return path
    return None


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window.

    For one module only: as long as Playwright is at work, its event loop counts as running in this thread, and other
    modules could not run theirs.
    """
    executable = find_chromium()
    if executable is None:
        pytest.skip(NO_CHROMIUM)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield chromium
        chromium.close()


@contextmanager
def new_profile(browser: Browser) -> Iterator[BrowserContext]:
    """A profile of its own: the pages in it share cookies and the cache of files."""
    # Without a locale in the environment Chromium would claim the language "en-US@posix", which no Intl.NumberFormat
    # takes, and uPlot asks for one as it loads.
    context = browser.new_context(viewport=VIEWPORT, locale="en-GB")
    context.set_default_timeout(DEADLINE * 1000)
    yield context
    context.close()


@contextmanager
def new_page(browser: Browser) -> Iterator[Page]:
    """An empty page in a profile of its own."""
    with new_profile(browser) as profile:
        yield profile.new_page()


@pytest.fixture(scope="module")
def profile(browser: Browser) -> Iterator[BrowserContext]:
    """The profile of a module's pages: in a new one JupyterLab takes twice the processor time until it is there."""
    with new_profile(browser) as made:
        yield made


@pytest.fixture
def page(profile: BrowserContext) -> Iterator[Page]:
    """An empty page."""
    made = profile.new_page()
    yield made
    made.close()


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Tab]:
    """A page in which the bare pages of a module follow one another."""
    with new_page(browser) as made:
        yield Tab(made)


@pytest.fixture
def bare(tab: Tab) -> Iterator[BarePage]:
    """A page that shows widgets and nothing else; what goes wrong in it fails the test."""
    shown = BarePage(tab)
    yield shown
    shown.close()
    assert not shown.faults, "\n".join(map(str, shown.faults))


class _Relay(BaseComm):
    """The kernel's end of a widget's comm: what it publishes waits for the page."""

    def __init__(self, waiting: queue.SimpleQueue[str], model: str) -> None:
        self._waiting = waiting
        super().__init__(target_name="jupyter.widget", comm_id=model, primary=False)

    def publish_msg(
        self,
        msg_type: str,
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        buffers: Sequence[Any] | None = None,
        **keys: Any,
    ) -> None:
        if msg_type == "comm_msg" and data is not None:
            message = {"model": self.comm_id, "data": _with_buffers(data, buffers or []), "buffers": buffers or []}
            self._waiting.put(json.dumps(message, default=_pack))


class _Faults(logging.Handler):
    """Notes the exceptions that are logged."""

    def __init__(self, note: Callable[[object], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._note(record.exc_info[1])


class Tab:
    """A page of Playwright that shows one document after another.

    A new document takes a quarter of the processor time of a new page, which has a process of its own.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.exchange: Callable[[str], list[str]] | None = None  # of the present document
        page.expose_function("exchange", lambda sent: self.exchange(sent) if self.exchange is not None else [])

    def clear(self) -> None:
        """Leave the document, and undo what a test may have set."""
        self.exchange = None
        self.page.goto("about:blank")
        self.page.unroute_all()
        self.page.set_viewport_size(VIEWPORT)
        self.page.emulate_media(color_scheme="light")


class BarePage:
    """Views of widgets in an otherwise empty page.

    Parameters
    ----------
    tab
        The tab that shows it.

    Attributes
    ----------
    page
        The page of Playwright, for clicks, pixels and pictures.
    faults
        What went wrong in the page or in a widget's handlers; the test fails if there is any at its end.
    kernel_answers
        Whether messages arrive; without a kernel they are lost in both directions.
    lost
        What the page has sent while the kernel did not answer.
    """

    def __init__(self, tab: Tab) -> None:
        self._tab = tab
        self.page = page = tab.page
        self.faults: list[object] = []
        self._widgets: dict[str, AnyWidget] = {}
        self._views: dict[str, str] = {}  # name of the view: its model
        self.kernel_answers = True
        self.lost: list[Any] = []
        self._count = 0
        self._waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        script = (ROOT / "tests" / "bare_page.js").read_text("utf-8")
        html = f"<!doctype html><meta charset=utf-8><body><script>{script}</script>"
        page.on("pageerror", self._note)
        page.on("console", self._said)
        page.route("**/*", lambda route: route.abort())  # nothing leaves this page
        page.route(ADDRESS, lambda route: route.fulfill(body=html, content_type="text/html"))
        tab.exchange = self._exchange
        self._log = logging.getLogger("traitlets")  # where ipywidgets tells what handlers raise, and goes on
        self._listener = _Faults(self._note)
        self._log.addHandler(self._listener)
        page.goto(ADDRESS)

    def show(self, widget: AnyWidget) -> Locator:
        """Render one more view of ``widget``, and return its element."""
        model = str(widget.model_id)
        if model not in self._widgets:
            self._widgets[model] = widget
            widget.comm = _Relay(self._waiting, model)
        self._count += 1
        name = f"view-{self._count}"
        self._views[name] = model
        self._render(name)
        return self.page.locator(f"#{name}")

    def hide(self, view: Locator) -> None:
        """Take ``view`` away, as closing its cell's output does."""
        name = str(view.get_attribute("id"))
        del self._views[name]
        self.page.evaluate("name => hide(name)", name)

    def reload(self) -> None:
        """Load the page anew: a new front end with the same views of the same widgets, which know nothing of it."""
        self.page.reload()
        self._drop_waiting()
        for name in self._views:
            self._render(name)

    def until(self, expression: str, argument: object = None) -> None:
        """Wait until the JavaScript ``expression``, or function of ``argument``, is true in the page."""
        self.page.wait_for_function(expression, arg=argument)

    def until_here(self, condition: Callable[[], object]) -> None:
        """Wait, letting messages through, until ``condition`` is true in this process."""
        deadline = monotonic() + DEADLINE
        while not condition():
            assert monotonic() < deadline, "nothing came of what was done in the page"
            self.page.evaluate("() => new Promise(requestAnimationFrame)")

    def close(self) -> None:
        """Close the widgets that were shown, and leave the document."""
        self.page.remove_listener("pageerror", self._note)
        self.page.remove_listener("console", self._said)
        self._tab.clear()
        for widget in self._widgets.values():
            widget.close()
        self._log.removeHandler(self._listener)

    def _note(self, fault: object) -> None:
        self.faults.append(fault)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._note(message.text)

    def _render(self, name: str) -> None:
        model = self._views[name]
        state = json.dumps(self._widgets[model].get_state(), default=_pack)
        self.page.evaluate("([model, state, name]) => show(model, state, name)", [model, state, name])

    def _drop_waiting(self) -> None:
        """Lose what is on its way to the page."""
        while not self._waiting.empty():
            self._waiting.get()

    def _exchange(self, sent: str) -> list[str]:
        """Take what the page sends, and give what waits for it."""
        if not self.kernel_answers:
            self._drop_waiting()
            self.lost += [message["data"].get("content") for message in json.loads(sent)]
            return []
        for message in json.loads(sent, object_hook=_unpack):
            widget = self._widgets[message["model"]]
            assert widget.comm is not None
            widget.comm.handle_msg({"content": {"data": message["data"]}, "buffers": message["buffers"]})
        arrived = []
        while not self._waiting.empty():
            arrived.append(self._waiting.get())
        return arrived


def _pack(value: object) -> dict[str, str]:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    raise TypeError(f"{type(value).__name__} is neither JSON nor bytes, and cannot be sent to a page")


def _unpack(value: dict[str, Any]) -> Any:
    return memoryview(base64.b64decode(value["$bytes"])) if value.keys() == {"$bytes"} else value


def _with_buffers(data: dict[str, Any], buffers: Sequence[Any]) -> dict[str, Any]:
    """Return ``data`` with the bytes of the state in their places again."""
    if not data.get("buffer_paths"):
        return data
    state: Any = json.loads(json.dumps(data["state"]))
    for path, value in zip(data["buffer_paths"], buffers, strict=True):
        functools.reduce(lambda inner, key: inner[key], path[:-1], state)[path[-1]] = value
    return {**data, "state": state}
