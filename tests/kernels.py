"""Kernels for the notebooks, forked from one process that has imported everything.

A fresh kernel, and a fresh fork server for each cluster in it, take 4 s of a processor for their imports: as long as
the cells of a short notebook. So the kernels of a pytest worker are forked by a fork server, as peers are, and the fork
servers of their clusters as :mod:`tests.fork_servers` says. The quickstart runs in a kernel that JupyterLab starts, as
users have it: see ``test_quickstart``.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from synergy_nb.runtime.process.fork_server import PRELOAD, ForkServer

__all__ = ["Kernels", "kernels"]

#: What notebooks import, beside what peers do.
IMPORTED: Final = (
    "ipykernel.kernelapp",
    "ipykernel.zmqshell",
    "matplotlib.figure",
    "matplotlib.pyplot",
    "synergy_nb.explore",
    "synergy_nb.notebook",
    "synergy_nb.runtime.client.cluster",
    "synergy_nb.simulator.simulation",
    "synergy_nb.testing",
    "synergy_nb.widgets.qos_view",
    "tests.fork_servers",
)
#: As ipykernel sets it, which comes too late for a Matplotlib that is there already.
ENVIRONMENT: Final = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
STARTING: Final = 200.0  # seconds
CELL: Final = 300.0  # seconds that a cell may take


# -- in the test's process ---------------------------------------------------------------------------------------------


class Kernels:
    """Starts kernels; the process that forks them starts with the first."""

    def __init__(self) -> None:
        self._loop = asyncio.Runner()
        self._server: ForkServer | None = None
        self._started = 0

    def run(self, sources: list[str], *, folder: Path) -> None:
        """Execute cells in a new kernel, in the folder.

        Raises ``AssertionError`` at the first cell that fails.
        """
        from jupyter_client.blocking.client import BlockingKernelClient
        from jupyter_client.connect import write_connection_file

        with tempfile.TemporaryDirectory() as home:
            file, _ = write_connection_file(str(Path(home, "kernel.json")), ip=str(Path(home, "s")), transport="ipc")
            with self._kernel(f"{folder}\n{file}"):
                client = BlockingKernelClient(connection_file=file)
                client.load_connection_file()
                client.start_channels()
                try:
                    client.wait_for_ready(STARTING)
                    for number, source in enumerate(sources):
                        _execute(client, number, source)
                finally:
                    client.stop_channels()

    def close(self) -> None:
        """End all of them."""
        if self._server is not None:
            self._loop.run(self._server.close())
        self._loop.close()

    @contextlib.contextmanager
    def _kernel(self, spec: str) -> Iterator[None]:
        if self._server is None:
            self._server = ForkServer.launch((*PRELOAD, *IMPORTED), ENVIRONMENT)
        self._started += 1
        name = f"kernel {self._started}"
        self._loop.run(self._server.fork(name, f"{__name__}:serve", spec.encode(), STARTING))
        try:
            yield
        finally:
            self._loop.run(self._server.stop(name))


def _execute(client: Any, number: int, source: str) -> None:
    """Have nbval execute a cell, and read its outputs up to the end."""
    from nbval.kernel import RunningKernel

    kernel = RunningKernel.__new__(RunningKernel)  # of a kernel that runs already
    kernel.kc = client
    asked = kernel.execute_cell_input(source, allow_stdin=False)
    kernel.await_reply(asked, timeout=CELL)
    said, failed = [], False
    while True:
        message = kernel.get_message("iopub", timeout=CELL)
        kind, content = message["msg_type"], message["content"]
        if message["parent_header"].get("msg_id") != asked:
            continue
        if kind == "status" and content["execution_state"] == "idle":
            break
        failed |= kind == "error"
        said += content.get("traceback", [content.get("text", "")])
    assert not failed, f"cell {number}:\n{source}\n\n{chr(10).join(said)[-4000:]}"


@pytest.fixture(scope="session")
def kernels() -> Iterator[Kernels]:
    """Kernels, all of one session."""
    made = Kernels()
    yield made
    made.close()


# -- in the kernel's process -------------------------------------------------------------------------------------------


def serve(spec: bytes, report: Callable[[Any], None]) -> None:
    """Be a kernel until it is told to end."""
    import os

    from ipykernel.kernelapp import IPKernelApp

    from tests.fork_servers import Parent, forked_by

    folder, file = spec.decode().splitlines()
    os.chdir(folder)
    if hasattr(os, "pidfd_open"):
        parent = Parent(forked=True)
        ForkServer.launch = forked_by(lambda: parent)  # type: ignore[method-assign]
    report(None)
    IPKernelApp.launch_instance(argv=["-f", file])
