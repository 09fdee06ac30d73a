"""Kernels for the notebooks, forked from one process that has imported everything.

A fresh kernel, and a fresh fork server for each cluster in it, take 4 s of a processor for their imports: as long as
the cells of a short notebook. So the kernels of a pytest worker are forked by a fork server, as peers are, and the fork
servers of their clusters as :mod:`tests.fork_servers` says. The quickstart runs in a kernel that JupyterLab starts, as
users have it: see ``test_quickstart``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final
from unittest.mock import patch

import pytest

from synergy_nb.notebook.waiting_lines import QUIET
from synergy_nb.runtime.process.fork_server import PRELOAD, ForkServer
from tests.spark_server import MORE, STAGES

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
ENVIRONMENT: Final = {
    # as ipykernel sets it, which comes too late for a Matplotlib that is there already
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    MORE: STAGES,
    QUIET: "outputs are compared, and only slow machines show what a call waits for",
}
STARTING: Final = 200.0  # seconds
CELL: Final = 300  # seconds that a cell may take


# -- in the test's process ---------------------------------------------------------------------------------------------


class Kernels:
    """Starts kernels; the process that forks them starts with the first."""

    def __init__(self) -> None:
        self._loop = asyncio.Runner()
        self._server: ForkServer | None = None
        self._started = 0

    def run(self, notebook: Path, *, folder: Path) -> None:
        """Have nbval execute the cells of a notebook in a new kernel, in the folder.

        Raises ``AssertionError`` if a cell fails.
        """
        from jupyter_client.blocking.client import BlockingKernelClient
        from jupyter_client.connect import write_connection_file

        with tempfile.TemporaryDirectory() as home:
            file, _ = write_connection_file(str(Path(home, "kernel.json")), ip=str(Path(home, "s")), transport="ipc")
            with self._kernel(f"{folder}\n{file}") as manager:
                client = BlockingKernelClient(connection_file=file)
                client.load_connection_file()
                client.start_channels(hb=False)  # a kernel that is silent for a second on a busy machine is no dead one
                try:
                    client.wait_for_ready(STARTING)

                    def attach(*, stderr: IO[str], **_: object) -> tuple[_Manager, BlockingKernelClient]:
                        stderr.close()  # which nbval opens for a kernel of its own
                        return manager, client

                    with patch("nbval.kernel.start_new_kernel", attach):
                        _run_nbval(notebook)
                finally:
                    client.stop_channels()

    def close(self) -> None:
        """End all of them."""
        if self._server is not None:
            self._loop.run(self._server.close())
        self._loop.close()

    @contextlib.contextmanager
    def _kernel(self, spec: str) -> Iterator[_Manager]:
        if self._server is None:
            self._server = ForkServer.launch((*PRELOAD, *IMPORTED), ENVIRONMENT)
        self._started += 1
        name = f"kernel {self._started}"
        self._loop.run(self._server.fork(name, f"{__name__}:serve", spec.encode(), STARTING))
        try:
            yield _Manager()
        finally:
            self._loop.run(self._server.stop(name))


class _Manager:
    """What nbval knows of a kernel that another manager ends."""

    kernel_spec = None

    def is_alive(self) -> bool:
        """Whether it lives; one that does not fails the cell that waits for it."""
        return True

    def shutdown_kernel(self, *, now: bool) -> None:
        """Leave it to its manager."""

    def interrupt_kernel(self) -> None:
        """Leave a cell that takes too long to the end of its kernel."""


def _run_nbval(notebook: Path) -> None:
    """Run pytest within this one, with nothing but what nbval needs; what it says is in the outputs of the test."""
    without = (
        "assertion", "cacheprovider", "doctest", "faulthandler", "logging", "threadexception", "unraisableexception",
        "warnings",
    )  # fmt: skip
    options = ["-q", "-s", "--noconftest", "-c", os.devnull, "--rootdir", str(notebook.parent)]
    plugins = [option for name in without for option in ("-p", f"no:{name}")]
    lax = ["-p", "nbval.plugin", "--nbval-lax", f"--nbval-cell-timeout={CELL}"]
    with patch.dict(os.environ, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}):
        code = pytest.main([*options, *plugins, *lax, str(notebook)])
    assert code == pytest.ExitCode.OK, "a cell failed: the output of this test has it"


@pytest.fixture(scope="session")
def kernels() -> Iterator[Kernels]:
    """Kernels, all of one session."""
    made = Kernels()
    yield made
    made.close()


# -- in the kernel's process -------------------------------------------------------------------------------------------


def serve(spec: bytes, report: Callable[[Any], None]) -> None:
    """Be a kernel until it is told to end."""
    from ipykernel.kernelapp import IPKernelApp

    from tests.fork_servers import Parent, forked_by

    folder, file = spec.decode().splitlines()
    os.chdir(folder)
    if hasattr(os, "pidfd_open"):
        parent = Parent(forked=True)
        ForkServer.launch = forked_by(lambda: parent)  # type: ignore[method-assign]
    report(None)
    IPKernelApp.launch_instance(argv=["-f", file])
