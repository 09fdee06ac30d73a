"""Secrets: given by their place, named in plans, sent to servers, and shown nowhere."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from synergy_nb import PlanError, mqtt, source
from synergy_nb.connectors.secret_values import Secrets, given_secrets
from synergy_nb.dataflow.sources import BrokenForNow, Source
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.allowed_paths import refused_paths
from synergy_nb.plan.derived.named_secrets import NamedSecret, secrets_of_plan
from tests.connectors.declared import declared, numbers
from tests.connectors.servers import Answer, Messages, page_server

COLUMNS = {"time": "time", "n": "int"}
TOKEN = "s3cr3t+token/of=mine"  # which a URL has to quote
ROW = b'{"time": 1, "n": 7}'
HEADERS = {"Authorization": "Bearer ${shop}", "X-Place": "here"}


def test_secrets_are_given_as_values_or_by_their_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_bytes(b"\x00\xff" * 8)
    monkeypatch.setenv("SHOP", TOKEN)
    kept = {("shop", "ann"): "abc"}
    keyring = SimpleNamespace(get_password=lambda service, user: kept.get((service, user)))
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    places: dict[str, bytes | str] = {
        "a": b"value",
        "b": "env:SHOP",
        "c": f"file:{tmp_path / 'key'}",
        "d": "keyring:shop/ann",
    }
    assert given_secrets(places) == {"a": b"value", "b": TOKEN.encode(), "c": b"\x00\xff" * 8, "d": b"abc"}
    wrong = {
        TOKEN: "it is something else; expected 'env:VARIABLE', 'file:PATH'",
        "env:NOBODY": "'env:NOBODY': it is not set; expected a variable of the environment",
        "file:/no": "'file:/no': No such file or directory; expected a file with the secret",
        "keyring:shop/eve": "'keyring:shop/eve': it is not there; expected an entry of the keyring",
        "keyring:shop": "expected a service and a user",
    }
    for where, said in wrong.items():
        with pytest.raises(ValueError, match=r"^secrets: 'x': ") as raised:
            given_secrets({"x": where})
        assert said in str(raised.value)
        assert TOKEN not in str(raised.value)
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ValueError, match="the package keyring is not installed"):
        given_secrets({"x": "keyring:shop/ann"})
    with pytest.raises(ValueError, match="the value is empty; expected a secret"):
        given_secrets({"x": b""})
    with pytest.raises(ValueError, match="secrets: a list; expected a mapping of names to 'env:VARIABLE'"):
        given_secrets([f"x={TOKEN}"])  # type: ignore[arg-type]


def test_a_password_in_place_of_the_name_of_a_secret_is_not_shown() -> None:
    for wrong in ("pa$$word", "pass\nword", " password", "{pass}" * 100):
        with pytest.raises(ValueError, match=r"^password: '\.\.\.'; expected the name of a secret"):
            mqtt("a", "broker.local:1883", user="ann", password=wrong)


def test_a_plan_has_names_of_secrets_and_is_refused_with_values() -> None:
    plan = source("http", url="https://shop.example/?key=${shop}", every="1 s", headers=HEADERS, columns=COLUMNS).sink()
    assert list(secrets_of_plan(plan)) == [
        ("source", NamedSecret("url", "shop")), ("source", NamedSecret("headers", "shop"))
    ]  # fmt: skip
    assert Plan.from_yaml(plan.to_yaml()) == plan
    said = "headers: secret 'shop'; expected none in a plan of somebody else"
    guest = source("sse", url="https://shop.example/", headers=HEADERS, columns=COLUMNS).sink()
    assert said in refused_paths(guest, [], hosts=["shop.example"])
    wrong: list[dict[str, Any]] = [
        {"headers": {"authorization": f"Bearer {TOKEN}"}},
        {"headers": {"X-Api-Key": TOKEN}},
        {"url": f"https://shop.example/?access_token={TOKEN}"},
        {"url": f"https://${{{TOKEN}}}.example/"},
        {"headers": {"Host": "other"}},
        {"headers": {"X": "two\nlines"}},
    ]
    expected = ["the name of a secret in it, as 'Bearer ${mine}'"] * 2 + [
        "the name of a secret there, as access_token=${mine}", "a URL such as 'https://",
        "the name of a header that the connector does not set itself", "a line of ASCII text",
    ]  # fmt: skip
    for params, needed in zip(wrong, expected, strict=True):
        with pytest.raises(PlanError) as raised:
            source("sse", **{"url": "https://shop.example/", "columns": COLUMNS, **params}).sink()
        assert needed in str(raised.value)
        assert TOKEN not in str(raised.value).replace(f"${{{TOKEN}}}", "")


@pytest.mark.parametrize("connector", ["http", "sse"])
def test_requests_have_secrets_and_errors_have_their_names(connector: str) -> None:
    asked: list[dict[str, str]] = []

    def tried(opened: Source) -> None:
        opened.open(None)
        opened.poll(0.0)

    broken = False

    def answer(headers: dict[str, str]) -> Answer | list[bytes]:
        asked.append(headers)
        if broken:
            return 503, {}, b""
        if headers["Authorization"] != f"Bearer {TOKEN}":
            return 401, {}, b""
        if connector == "http":
            return 302, {"Location": f"https://other.example/?token={TOKEN}"}, b""
        return [b"data: " + ROW + b"\n\n"]

    every = {"every": "1 us"} if connector == "http" else {}
    with page_server(answer) as server:  # type: ignore[arg-type]  # a list of pieces
        url = f"{server}?token=${{shop}}"
        made = declared(connector, {"shop": f"{TOKEN}\n".encode()}, url=url, headers=HEADERS, columns=COLUMNS, **every)
        made.open(None)
        if connector == "http":
            with pytest.raises(ValueError, match="302") as moved:
                made.poll(0.0)
            assert str(moved.value).endswith("to https://other.example/?token=${shop}, which is not followed; "
                                             "expected an answer with rows")  # fmt: skip
        else:
            polled = None
            while polled is None:
                polled = made.poll(1.0)
            assert numbers(polled) == [7]
        made.close()
        broken = True
        with pytest.raises(BrokenForNow) as unavailable:
            tried(made)
        assert str(unavailable.value) == f"GET {url}: 503 Service Unavailable"
        made.close()
        wrong = declared(connector, {"shop": b"other"}, url=url, headers=HEADERS, columns=COLUMNS, **every)
        broken = False
        with pytest.raises(ValueError, match="401 Unauthorized; expected an answer with rows"):
            tried(wrong)
        wrong.close()
    assert asked[0]["X-Place"] == "here"


def test_a_web_socket_is_told_secrets() -> None:
    with Messages() as messages:
        hello = '{"auth": "${shop}", "to": {"all": true}}'
        made = declared("websocket", {"shop": TOKEN.encode()}, url=messages.url, hello=hello, headers=HEADERS,
                        columns=COLUMNS)  # fmt: skip
        made.open(None)
        messages.connected.acquire()
        messages.send(ROW.decode())
        while not (polled := made.poll(1.0)):
            pass
        assert numbers(polled) == [7]
        messages.spoken.acquire()
        assert messages.heard == [f'{{"auth": "{TOKEN}", "to": {{"all": true}}}}']
        assert messages.clients[0].request.headers["Authorization"] == f"Bearer {TOKEN}"
        made.close()


def test_a_secret_that_a_peer_lacks_is_named() -> None:
    for values, said in (
        ({"other": b"x"}, "headers: secret 'shop'; expected one that this peer has (other)"),
        ({"shop": b"\xff"}, "headers: secret 'shop'; expected a text in UTF-8"),
        ({"shop": b"a\nb"}, "headers: secret 'shop'; expected a line of text"),
    ):
        with pytest.raises(ValueError, match="headers") as raised:
            declared("sse", values, url="https://shop.example/", headers=HEADERS, columns=COLUMNS)
        assert str(raised.value) == said
    assert repr(Secrets([NamedSecret("headers", "shop")], {"shop": TOKEN.encode()})) == "Secrets(shop)"
