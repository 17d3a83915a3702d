"""What a request is refused for, in the shape that the caller's client reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse

from tonetune.errors import DataError, DeviceError, TonetuneError

Shape = Callable[[int, str, str], JSONResponse]


@dataclass(frozen=True)
class Kind:
    """What a status is called: by us, by text-embeddings-inference, by vLLM."""

    ours: str
    tei: str
    vllm: str


KINDS = {
    400: Kind("BadRequest", "Validation", "BadRequestError"),
    401: Kind("Unauthorized", "Validation", "AuthenticationError"),
    404: Kind("NotFound", "Validation", "NotFoundError"),
    405: Kind("MethodNotAllowed", "Validation", "BadRequestError"),
    413: Kind("TooLarge", "Validation", "BadRequestError"),
    422: Kind("Unprocessable", "Validation", "BadRequestError"),
    429: Kind("QueueFull", "Overloaded", "RateLimitError"),
    499: Kind("ClientGone", "Validation", "BadRequestError"),
    500: Kind("Bug", "Backend", "InternalServerError"),
    503: Kind("Unavailable", "Unhealthy", "ServiceUnavailableError"),
}


class Refused(TonetuneError):
    """A request that is not answered, with its HTTP status and, where it may be sent again, when."""

    def __init__(self, status: int, what: str, *, hint: str, retry_after_s: int | None = None) -> None:
        super().__init__(what, hint=hint)
        self.status = status
        self.retry_after_s = retry_after_s


def _ours(status: int, what: str, hint: str) -> JSONResponse:
    return JSONResponse({"error": {"type": KINDS[status].ours, "what": what, "hint": hint}}, status)


def _tei(status: int, what: str, hint: str) -> JSONResponse:
    return JSONResponse({"error": f"{what}: {hint}", "error_type": KINDS[status].tei}, status)


def _vllm(status: int, what: str, hint: str) -> JSONResponse:
    status = 400 if status == 422 else status  # there a request of the wrong shape is a bad one
    error = {"message": f"{what}: {hint}", "type": KINDS[status].vllm, "param": None, "code": status}
    return JSONResponse({"error": error}, status)


SHAPES: dict[str, Shape] = {"/predict": _tei, "/classify": _vllm, "/v1/classify": _vllm}
"""Shape of an error by path; every other path speaks ours."""
FORMS = {
    "/predict": '{"inputs": "a text"}, or {"inputs": [["one"], ["two"]]} for several',
    "/": '{"inputs": "a text"} or {"inputs": ["one", "two"]}, with "parameters" or without',
    "/classify": '{"input": "a text"} or {"input": ["one", "two"]}, with "model" or without',
    "/v1/classify": '{"input": "a text"} or {"input": ["one", "two"]}, with "model" or without',
}
"""What to send, by path."""


def response(path: str, refused: Refused) -> JSONResponse:
    """The error as the client of `path` reads it."""
    answer = SHAPES.get(path, _ours)(refused.status, refused.what, str(refused.hint))
    if refused.retry_after_s is not None:
        answer.headers["Retry-After"] = str(refused.retry_after_s)
    if refused.status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def misshapen(path: str, errors: Sequence[Any]) -> Refused:
    """400 for a body that is no JSON, 422 for JSON of another shape; `errors` are pydantic's."""
    hint = f"as application/json: {FORMS.get(path, 'see /docs')}"
    first = errors[0]
    if first["type"] == "json_invalid":
        return Refused(400, "the body is no JSON", hint=f"send {hint}")
    place = ".".join(str(part) for part in first["loc"][1:2]) or "body"
    return Refused(422, f"{place}: {first['msg']}", hint=f"send {hint}")


def refusal_of(error: TonetuneError) -> Refused:
    """A deliberate error of the library as the answer to a request."""
    if isinstance(error, Refused):
        return error
    what = f"{error.where}: {error.what}" if error.where else error.what
    if isinstance(error, DataError):
        return Refused(422, what, hint=error.hint or "change the text")
    hint = error.hint or ("send fewer texts at once" if isinstance(error, DeviceError) else "ask who runs the service")
    return Refused(503, what, hint=hint, retry_after_s=1)
