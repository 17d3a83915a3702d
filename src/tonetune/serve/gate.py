"""What every request passes: the key, the size and the arrival of its body; then it is counted and logged."""

import asyncio
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tonetune.serve.limits import Limits
from tonetune.serve.metrics import Metrics
from tonetune.serve.problems import Refused, response

LOG = logging.getLogger("tonetune.serve")
LONGEST_NUMBER = 18  # digits
OPEN = {"/", "/health", "/ready", "/docs", "/openapi.json"}
"""Paths, and those below /static/, that anyone may GET: probes and pages, which hold nothing of the models."""


class Gate:
    """ASGI middleware around the routes. Without `keys` everyone passes."""

    def __init__(self, app: ASGIApp, *, keys: Sequence[str], limits: Limits, metrics: Metrics, log_texts: bool) -> None:
        self._app = app
        self._digests = [_digest(key) for key in keys]
        self._limits, self._metrics, self._log_texts = limits, metrics, log_texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        scope.setdefault("state", {})
        status = 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._require_key(scope)
            body = await self._body(Headers(scope=scope), receive)
            await self._app(scope, _replayed(body, receive), sending)
        except Refused as refused:
            await response(scope["path"], refused)(scope, receive, sending)
        finally:
            self._record(scope, status, time.perf_counter() - begun)

    def _require_key(self, scope: Scope) -> None:
        """Refuses a request without a known key; the time it takes says nothing about the keys."""
        path = scope["path"]
        if not self._digests or (scope["method"] == "GET" and (path in OPEN or path.startswith("/static/"))):
            return
        scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        known = [hmac.compare_digest(_digest(given), digest) for digest in self._digests]
        if scheme.lower() != "bearer" or not any(known):
            raise Refused(401, "no known API key", hint="send the header Authorization: Bearer KEY")

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body; refused as soon as it is too large, or arrives too slowly."""
        most, timeout_s = self._limits.body_bytes, self._limits.timeout_s
        declared = headers.get("content-length", "")
        too_large = Refused(413, f"a body of more than {most:,} bytes", hint="send the texts in several requests")
        if declared.isdecimal() and (len(declared) > LONGEST_NUMBER or int(declared) > most):
            raise too_large

        async def arriving() -> bytes:
            body = bytearray()
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(499, "the client is gone", hint="nobody reads this")
                body += message.get("body", b"")
                if len(body) > most:
                    raise too_large
                if not message.get("more_body"):
                    return bytes(body)

        try:
            return await asyncio.wait_for(arriving(), timeout_s)
        except asyncio.TimeoutError:
            raise Refused(400, f"the body did not arrive within {timeout_s} s", hint="send it faster") from None

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", None) or "other"
        self._metrics.request(route, status, seconds)
        state = scope["state"]
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "seconds": round(seconds, 4),
            **state.get("log", {}),
            **(state.get("log_texts", {}) if self._log_texts else {}),
        }
        LOG.log(logging.INFO if status < HTTPStatus.INTERNAL_SERVER_ERROR else logging.ERROR, json.dumps(line))


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A channel that gives the body at once, and then what else the client does."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message
