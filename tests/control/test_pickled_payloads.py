"""A pickled object that would write a file, at each door where bytes of others are decoded: nothing is unpickled."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import synergy_nb
from synergy_nb.algorithms.availability.messages import decode_task
from synergy_nb.algorithms.composition.messages import decode_request
from synergy_nb.control.peer import Codec
from synergy_nb.dataflow.streams.log import wire
from synergy_nb.plan import Plan
from synergy_nb.plan.terms import known_functions
from tests.one_peer import OnePeer


class Writes:
    """An object whose unpickling writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.write_text, (self.path, "unpickled")


DOORS: dict[str, Callable[[bytes], object]] = {
    "message": lambda data: Codec(OnePeer("a").synergy.peer.message_types).decode(data),
    "plan": Plan.from_bytes,
    "request": decode_request,
    "task": decode_task,
    "frame": wire.decode,
    "content": known_functions.Payload.decoded,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("wrapped", [False, True])
def test_what_would_write_a_file_is_refused_and_writes_none(door: str, wrapped: bool, tmp_path: Path) -> None:
    path = tmp_path / "written"
    data = pickle.dumps(Writes(path))
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        DOORS[door](msgspec.msgpack.encode(data) if wrapped else data)
    assert not path.exists()
    pickle.loads(data)
    assert path.exists()


@pytest.mark.slow
def test_objects_are_unpickled_in_the_process_of_a_function_alone() -> None:
    root = Path(synergy_nb.__file__).parent
    readers, users = set(), set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("loads", "load", "Unpickler"):
                module = node.value.id if isinstance(node.value, ast.Name) else ""
                if module in ("pickle", "cloudpickle", "dill", "joblib", "marshal"):
                    readers.add(str(path.relative_to(root)))
            if isinstance(node, ast.Name) and node.id == "Shipped":
                users.add(str(path.relative_to(root)))
    assert (readers, users) == ({"plan/functions/shipping.py"}, {"dataflow/functions/calls.py"})
