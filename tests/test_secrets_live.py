"""A run with secrets: whatever it leaves is searched for their values."""

from __future__ import annotations

import contextlib
import pickle
import threading
from pathlib import Path
from urllib.parse import quote

import pytest

from synergy_nb import Cluster, source
from synergy_nb.dataflow.operators.base import Context
from synergy_nb.events import SourceBroken
from tests.connectors.servers import Answer, page_server

TOKEN = "t0ken+of/the=shop"
KEY = "a key of more than sixteen bytes"
COLUMNS = {"time": "time", "n": "int"}


@pytest.mark.slow
def test_nothing_that_a_run_leaves_has_the_value_of_a_secret(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []
    refuses = threading.Event()

    def answer(headers: dict[str, str]) -> Answer:
        asked.append(headers.get("Authorization", ""))
        if len(asked) == 1:
            return 503, {}, b""
        if refuses.is_set():  # as a server that shows what it was sent
            return 302, {"Location": f"https://shop.example/{quote(TOKEN, safe='')}/{TOKEN}"}, b""
        return 200, {}, b'{"time": 1, "n": 7}'

    file, runs = tmp_path / "run.rec", tmp_path / "runs"
    shown: list[object] = []
    with (
        page_server(answer) as url,
        Cluster(
            2, cores=1.0, spark=False, record=file, runs=runs, secrets={"shop": TOKEN.encode(), "mine": KEY.encode()}
        ) as cluster,
    ):
        page = source("http", url=f"{url}?token=${{shop}}", every="20 ms", columns=COLUMNS,
                      headers={"Authorization": "Bearer ${shop}"})  # fmt: skip
        plan = page.encrypt("n", key="mine").sink("out")
        application = cluster.submit(plan)
        assert application.head(1).height == 1
        refuses.set()
        assert application.wait() == "failed"
        assert [event.reason for event in application.events().of(SourceBroken)] == [
            f"GET {url}?token=${{shop}}: 503 Service Unavailable"
        ]
        with contextlib.suppress(Exception):
            application.results()
        shown += [application.reason, application.notices, application.graph, application.qos(), application.id]
        shown += [application.explain(), cluster.applications, cluster]
        shown += [repr(event) for event in application.events()]
        shown += [plan, plan.to_yaml(), plan.to_svg(), plan.stream_name("source"), plan.to_python(), plan.to_bytes()]
        refused = cluster.submit(page.filter("n > 0").encrypt("n", key="theirs").sink())
        refused.wait()
        assert "expected a secret that this peer has (mine, shop)" in str(refused.reason)
        shown.append(refused.reason)
    assert asked[1] == f"Bearer {TOKEN}"
    shown.append(Context("a", "encrypt", {}, (), {}, "s", secrets={"mine": KEY.encode()}))
    text = "\n".join(f"{each}\n{each!r}" for each in shown).encode() + "".join(capfd.readouterr()).encode()
    left = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.suffix for path in left} >= {".rec", ".parquet"}
    for name in (TOKEN, quote(TOKEN, safe=""), KEY):
        for form in (name.encode(), name.encode().hex().encode(), pickle.dumps(name)[-len(name) - 3 : -3]):
            assert form not in text
            assert [path for path, content in left.items() if form in content] == []
