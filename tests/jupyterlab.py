"""A real JupyterLab for tests: one server without the user's settings, and notebooks in pages of it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psutil
import pytest

from tests.browser import NO_CHROMIUM, ROOT, find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

__all__ = ["ASKED", "CONFIGURATION", "Cell", "JupyterLab", "LabNotebook", "jupyterlab"]

STARTING: Final = 120.0  # seconds for the server, which imports much
ASKED: Final = 200.0  # milliseconds between two questions that take much of a processor: not one for each frame
ENDING: Final = 30.0  # seconds for the server and its kernels, after having been asked
CONFIGURATION: Final = ROOT / ".ci" / "jupyter"  # which `make lab` names, too
SETTINGS: Final = {
    "docmanager-extension/plugin": {"autosave": False},
    "notebook-extension/tracker": {"windowingMode": "none"},  # cells out of sight are drawn, too
}
OPEN: Final = """async path => {
    await jupyterapp.restored;
    const panel = await jupyterapp.commands.execute("docmanager:open", { path, factory: "Notebook" });
    jupyterapp.shell.activateById(panel.id);
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
    globalThis.panel = panel;
}"""
# All cells, or those before or from the first that holds a text.
RUN: Final = """([command, text]) => {
    globalThis.finished = undefined;
    if (text !== null) {
        const cells = panel.content.model.sharedModel.toJSON().cells;
        const code = cells.map(cell => cell.cell_type === "code" ? cell.source : "");
        panel.content.activeCellIndex = code.findIndex(source => source.includes(text));
    }
    jupyterapp.commands.execute(`notebook:${command}`).then(() => (globalThis.finished = true));
}"""
# The outputs arrive by messages of their own, so the kernel has to be idle and every cell to have its number, unless
# one has failed and ended the run.
FINISHED: Final = """() => {
    const cells = panel.content.model.sharedModel.toJSON().cells.filter(cell => cell.cell_type === "code");
    const failed = cells.some(cell => cell.outputs.some(output => output.output_type === "error"));
    const idle = panel.sessionContext.session?.kernel?.status === "idle";
    return finished && idle && (failed || cells.every(cell => cell.execution_count !== null));
}"""


class Cell(NamedTuple):
    """A code cell after its execution: what it holds, its number, and its outputs as the notebook format has them."""

    source: str
    execution_count: int | None
    outputs: list[dict[str, Any]]

    def text(self) -> str:
        """Return what the cell printed, and the text of its results."""
        shown = []
        for output in self.outputs:
            plain = output.get("text", output.get("data", {}).get("text/plain", ""))
            shown.append("".join(plain) + "".join(output.get("traceback", [])))
        return "\n".join(shown)


class LabNotebook:
    """One notebook, open in a page of JupyterLab, with its own kernel."""

    def __init__(self, page: Page, address: str, path: str) -> None:
        self.page = page
        page.goto(address)
        self.reopen(path)

    def reopen(self, path: str) -> None:
        """Open the notebook again, with the kernel that it has, after the page was loaded anew."""
        self.page.wait_for_function("() => globalThis.jupyterapp !== undefined")
        self.page.evaluate(OPEN, path)

    def start(self, *, before: str | None = None, at: str | None = None) -> None:
        """Have cells run by JupyterLab's own commands: all, or those before or from the first that holds a text."""
        command = "run-all-above" if before is not None else "run-all-below" if at is not None else "run-all-cells"
        self.page.evaluate(RUN, [command, at if before is None else before])

    def finish(self, timeout: float) -> list[Cell]:
        """Wait until they have run, or one has failed, and return the code cells; ``timeout`` is in seconds."""
        self.page.wait_for_function(FINISHED, timeout=timeout * 1000, polling=ASKED)
        return self.cells()

    def cells(self) -> list[Cell]:
        """Return the code cells as they are."""
        cells = self.page.evaluate("() => panel.content.model.sharedModel.toJSON().cells")
        return [
            Cell("".join(cell["source"]), cell["execution_count"], cell["outputs"])
            for cell in cells
            if cell["cell_type"] == "code"
        ]

    def output(self, text: str) -> Locator:
        """Return what is shown below the first code cell that holds ``text``."""
        cell = self.page.locator(".jp-CodeCell").filter(has=self.page.locator(".jp-InputArea", has_text=text)).first
        return cell.locator(".jp-OutputArea-output").first

    def close(self) -> None:
        """End the kernel."""
        self.page.evaluate("() => panel.sessionContext.shutdown()")


class JupyterLab:
    """A server on 127.0.0.1, with copies of the notebooks.

    Parameters
    ----------
    home
        An empty folder for everything that it writes.
    """

    def __init__(self, home: Path) -> None:
        self.folder = home / "notebooks"
        shutil.copytree(ROOT / "notebooks", self.folder, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
        for name, values in SETTINGS.items():
            file = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values), "utf-8")
        self.log = home / "server.log"
        self._token = secrets.token_hex(16)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *self._options()],
            env=_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=home,
        )
        ports: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, args=[ports], daemon=True)
        self._listener.start()
        try:
            port = ports.get(timeout=STARTING)
        except queue.Empty:
            port = None
        if port is None or not self._accepts(int(port)):
            self.close()
            raise AssertionError(f"JupyterLab did not start:\n{self.log.read_text('utf-8')[-4000:]}")
        self._address = f"http://127.0.0.1:{port}/lab"

    def open(self, page: Page, path: str) -> LabNotebook:
        """Open the notebook ``path`` in ``page``, in a workspace of its own."""
        return LabNotebook(page, f"{self._address}?reset&token={self._token}", path)

    def close(self) -> None:
        """End the server and all that it started, by their ids; whatever does not go by itself is an error."""
        started = []
        if self._server.poll() is None:
            started = psutil.Process(self._server.pid).children(recursive=True)
            self._server.terminate()
        try:
            self._server.wait(ENDING)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._listener.join(ENDING)
        assert self._server.stderr is not None
        self._server.stderr.close()
        _, left = psutil.wait_procs(started, timeout=ENDING)
        told = [f"{process.pid}: {process.cmdline()}" for process in left]
        for process in left:
            process.kill()
        assert not left, f"JupyterLab left behind: {told}"

    def _accepts(self, port: int) -> bool:
        """Wait until the server listens, which it does a little after having said so, or has ended."""
        deadline = monotonic() + STARTING
        while monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            except OSError:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._server.wait(0.05)
                    return False
            else:
                return True
        return False

    def _options(self) -> list[str]:
        return [
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.port=0",
            f"--ServerApp.root_dir={self.folder}",
            f"--IdentityProvider.token={self._token}",
            "--ServerApp.terminals_enabled=False",
            "--LanguageServerManager.autodetect=False",
            "--LabApp.expose_app_in_browser=True",
        ]

    def _listen(self, ports: queue.SimpleQueue[str | None]) -> None:
        """Keep what the server says, and find its port in it; None if it ends."""
        assert self._server.stderr is not None
        with self.log.open("w", encoding="utf-8") as log:
            for line in self._server.stderr:
                log.write(line)
                log.flush()
                if found := re.search(r"http://127\.0\.0\.1:(\d+)/", line):
                    ports.put(found[1])
        ports.put(None)


def _environment(home: Path) -> dict[str, str]:
    """Return this environment without the user's settings of Jupyter, with those of `make lab`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON", "XDG_"))}
    folders = {
        "HOME": home,
        "IPYTHONDIR": home / "ipython",
        "JUPYTER_CONFIG_DIR": home / "config",
        "JUPYTER_CONFIG_PATH": CONFIGURATION,
        "JUPYTER_DATA_DIR": home / "data",
        "JUPYTER_RUNTIME_DIR": home / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": home / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces",
    }
    return kept | {name: str(folder) for name, folder in folders.items()} | {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="session")
def jupyterlab() -> Iterator[JupyterLab]:
    """One JupyterLab for all tests."""
    if find_chromium() is None:
        pytest.skip(NO_CHROMIUM)
    with tempfile.TemporaryDirectory(prefix="synergy-lab-") as folder:
        lab = JupyterLab(Path(folder))
        yield lab
        lab.close()
