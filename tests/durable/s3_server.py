"""A small server with the interface of S3: what clients need who write, create, read, list and remove objects."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

PAGE: Final = 100  # most names in an answer
TIME: Final = "2026-01-01T00:00:00.000Z"
NAMESPACE: Final = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}  # path of the bucket and the key to what it contains
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    """Each method has the name that the protocol gives it."""

    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        """Say nothing."""

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).strip("/")

    @property
    def _query(self) -> dict[str, str]:
        return {name: found[0] for name, found in parse_qs(urlsplit(self.path).query, keep_blank_values=True).items()}

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, status: int, body: str | bytes = "") -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", '"0"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _error(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>")

    def do_PUT(self) -> None:
        data = self._body()
        with self.server.lock:
            there = self._key in self.server.objects and self.headers.get("If-None-Match") == "*"
            if not there:
                self.server.objects[self._key] = data
        if there:
            self._error(412, "PreconditionFailed")
        else:
            self._answer(200)

    def do_GET(self) -> None:
        if "list-type" in self._query:
            self._list()
        elif (data := self.server.objects.get(self._key)) is None:
            self._error(404, "NoSuchKey")
        else:
            self._answer(200, data)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.server.objects.pop(self._key, None)
        self._answer(204)

    def do_POST(self) -> None:
        """Remove several objects."""
        names = [each.text or "" for each in ET.fromstring(self._body()).iter(f"{NAMESPACE}Key")]
        for name in names:
            self.server.objects.pop(f"{self._key}/{name}", None)
        gone = "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
        self._answer(200, f"<DeleteResult>{gone}</DeleteResult>")

    def _list(self) -> None:
        query, bucket = self._query, f"{self._key}/"
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
        with self.server.lock:
            keys = sorted(each.removeprefix(bucket) for each in self.server.objects if each.startswith(bucket + prefix))
        entries: dict[str, bool] = {}  # key or folder, and whether it is a folder
        for key in keys:
            first, folder, _ = key.removeprefix(prefix).partition("/")
            is_folder = bool(query.get("delimiter") and folder)
            entries[f"{prefix}{first}/" if is_folder else key] = is_folder
        left = [each for each in entries if each > after]
        page = "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>"
            if entries[each]
            else f"<Contents><Key>{escape(each)}</Key><LastModified>{TIME}</LastModified><ETag>0</ETag>"
            f"<Size>{len(self.server.objects.get(bucket + each, b''))}</Size></Contents>"
            for each in left[:PAGE]
        )
        more = left[PAGE:] and f"<NextContinuationToken>{escape(left[PAGE - 1])}</NextContinuationToken>"
        self._answer(
            200,
            f"<ListBucketResult><IsTruncated>{'true' if more else 'false'}</IsTruncated>{more or ''}{page}"
            f"<KeyCount>{len(left[:PAGE])}</KeyCount></ListBucketResult>",
        )


@contextlib.contextmanager
def s3_server() -> Iterator[tuple[str, dict[str, bytes]]]:
    """The address of a server, and its objects by bucket and key."""
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.objects
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
