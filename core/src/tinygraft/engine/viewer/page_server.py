"""The server of the page, on loopback: who has the token of its address sees the page, and what is new in the record.

Every request needs the token, which is compared in constant time, and a Host header that names loopback and the port of
the server: a page of another site whose name was made to mean this address (DNS rebinding) gets neither.
"""

from __future__ import annotations

import hmac
import secrets
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tinygraft.engine.viewer.live_record import LiveRecord
from tinygraft.engine.viewer.packing import stages_text, text
from tinygraft.engine.viewer.page_file import live_page, saved_page
from tinygraft.engine.viewer.page_news import news

LOOPBACK = "127.0.0.1"
POLL = 0.05  # assumed: seconds that the end of a program may wait for the server
DIGITS = 16  # given: more than any list here has
COUNTED = ("kernels", "schedules", "launches", "origins", "tracks", "spans", "memory")  # lists of which news are asked


class _QuietServer(ThreadingHTTPServer):
    """Threads end with the process, and a page that is closed in the middle of an answer is no error."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what is not the end of a connection."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class PageServer:
    """A server of one record, in a thread of its own that ends with the process."""

    record: LiveRecord
    title: str

    def __init__(self, record: LiveRecord, title: str) -> None:
        self.record, self.title = record, title
        self.token: str = secrets.token_urlsafe(24)
        handler = type("Handler", (_PageHandler,), {"page_server": self})
        self._server = _QuietServer((LOOPBACK, 0), handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(POLL,), name="tinygraft viewer", daemon=True).start()

    @property
    def address(self) -> str:
        """The address of the page, with its token."""
        return f"http://{LOOPBACK}:{self.port}/?token={self.token}"

    def stop(self) -> None:
        """Stop to serve."""
        self._server.shutdown()
        self._server.server_close()

    def is_allowed(self, host: str, token: str) -> bool:
        """Return whether a request may be answered, by its Host header and its token."""
        hosts = (f"{LOOPBACK}:{self.port}", f"localhost:{self.port}")
        return host.lower() in hosts and hmac.compare_digest(token.encode(), self.token.encode())

    def answer(self, path: str, query: dict[str, str]) -> tuple[str, str] | None:
        """Return the type and text of what is at a path; None where nothing is.

        `query` has the numbers that "/news" asks with; a stage of a kernel is at /kernel/NUMBER.
        """
        record = self.record
        if path == "/":
            return "text/html; charset=utf-8", live_page(self.title)
        if path == "/save":
            return "text/html; charset=utf-8", saved_page(record, self.title)
        if path == "/news":
            have = {name: int(query[name]) for name in COUNTED if _is_number(query.get(name, ""))}
            return "application/json", text(news(record, have))
        kind, _, number = path.strip("/").partition("/")
        shown: dict[str, Callable[[], list[Any]]] = {
            "kernel": lambda: record.kernels, "schedule": lambda: record.schedules,
        }  # fmt: skip
        if kind in shown and _is_number(number) and int(number) < len(shown[kind]()):
            with record.lock:
                stages = list(shown[kind]()[int(number)].stages)
            return "application/json", stages_text(stages)
        return None


def _is_number(text: str) -> bool:
    """Return whether a text is a number of digits that int() takes: it refuses very long ones."""
    return text.isdecimal() and len(text) < DIGITS


class _PageHandler(BaseHTTPRequestHandler):
    """One request. Only GET is answered."""

    page_server: PageServer
    protocol_version = "HTTP/1.1"
    server_version = "tinygraft"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the page, with news or with the stages of a kernel or schedule.

        The status is 403 without the token or for another host, and 404 for a path where nothing is.
        """
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        token = self.headers.get("X-Token") or query.get("token", "")
        if not self.page_server.is_allowed(self.headers.get("Host", ""), token):
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "open the whole address that the program printed\n")
        elif (found := self.page_server.answer(url.path, query)) is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here\n")
        else:
            self._send(HTTPStatus.OK, *found, saved=url.path == "/save")

    def _send(self, status: HTTPStatus, kind: str, content: str, saved: bool = False) -> None:
        """Answer a request with `content`, whose media type is `kind`; with `saved` browsers store it as a file.

        The headers forbid caches and frames.
        """
        body = content.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        if saved:
            self.send_header("Content-Disposition", 'attachment; filename="tinygraft.html"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: requests are no news of the program."""
