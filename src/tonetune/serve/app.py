"""The application: routes, errors in their clients' shapes, the gate, and queues that live as long as it does."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from tonetune import __version__
from tonetune.errors import TonetuneError
from tonetune.runtime import TextClassifier
from tonetune.serve.gate import Gate
from tonetune.serve.limits import Limits
from tonetune.serve.problems import KINDS, Refused, misshapen, refusal_of, response
from tonetune.serve.routes import STATIC, router
from tonetune.serve.service import Service


def create_app(
    classifiers: Mapping[str, TextClassifier],
    *,
    limits: Limits,
    keys: Sequence[str] = (),
    log_texts: bool = False,
) -> FastAPI:
    """An ASGI application over classifiers by name.

    With `keys`, routes that tell of the models want one; texts are logged where `log_texts`.
    """
    service = Service(classifiers, limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.close()

    app = FastAPI(
        title="tonetune",
        version=__version__,
        description="Labels and their probabilities for texts.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC))
    app.add_middleware(Gate, keys=keys, limits=limits, metrics=service.metrics, log_texts=log_texts)
    app.add_exception_handler(RequestValidationError, _misshapen)
    app.add_exception_handler(TonetuneError, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)
    return app


async def _misshapen(request: Request, error: Exception) -> JSONResponse:
    errors = error.errors() if isinstance(error, RequestValidationError) else []
    return response(request.url.path, misshapen(request.url.path, errors))


async def _refused(request: Request, error: Exception) -> JSONResponse:
    return response(request.url.path, refusal_of(error))  # type: ignore[arg-type]


async def _http(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) and error.status_code in KINDS else 400
    what = str(getattr(error, "detail", error))
    return response(request.url.path, Refused(status, what, hint="/docs lists the routes"))


async def _bug(request: Request, error: Exception) -> JSONResponse:
    """The client hears that it is a bug; what bug stands in the log."""
    bug = Refused(500, "a bug in tonetune", hint="the service's log says which; please report it")
    return response(request.url.path, bug)
