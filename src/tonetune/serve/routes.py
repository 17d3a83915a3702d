"""The routes: each reads a request in its clients' shape, asks a model, and answers in that shape."""

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from numpy.typing import NDArray

from tonetune import __version__
from tonetune.evaluation.calibration import sigmoid, softmax
from tonetune.runtime import TextClassifier
from tonetune.serve.models import Answer, Model
from tonetune.serve.problems import Refused
from tonetune.serve.service import Service
from tonetune.serve.shapes import (
    ClassifyRequest,
    ClassifyResponse,
    Error,
    InferenceRequest,
    Parameters,
    PredictRequest,
    Score,
    TeiError,
    VllmError,
    errors,
)

STATIC = Path(__file__).with_name("static")
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
PAIR = 'a flat list of two texts is a pair, which this model does not take: for two texts send [["one"], ["two"]]'

router = APIRouter()


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Known = Annotated[Service, Depends(_service)]


def _model(
    service: Known, model: Annotated[str | None, Query(description="its name; the first if absent")] = None
) -> Model:
    return service.model(model)


Chosen = Annotated[Model, Depends(_model)]


@router.post(
    "/predict",
    tags=["classify"],
    response_model=list[Score] | list[list[Score]],
    responses=errors(TeiError, 400, 401, 404, 413, 422, 429, 503),
)
async def predict(body: PredictRequest, request: Request, model: Chosen) -> JSONResponse:
    """Labels with scores, the highest first, as text-embeddings-inference answers."""
    texts = _flat(body.inputs)
    answer = await model.answer(request, texts, whole=body.truncate is False)
    ranked = answer.ranked(answer.raw if body.raw_scores else answer.probs)
    several = isinstance(body.inputs, list) and isinstance(body.inputs[0], list)
    return JSONResponse(ranked if several else ranked[0])


def _flat(inputs: str | list[str] | list[list[str]]) -> list[str]:
    """The texts of a request. Raises Refused for pairs, and for a flat list of more."""
    if isinstance(inputs, str):
        return [inputs]
    texts = [text for row in inputs for text in ([row] if isinstance(row, str) else row)]
    batch = isinstance(inputs[0], list)
    if len(texts) != (len(inputs) if batch else 1) or any(len(row) != 1 for row in inputs if isinstance(row, list)):
        raise Refused(422, "inputs: two or more texts where one belongs", hint=PAIR)
    return texts


@router.post(
    "/",
    tags=["classify"],
    response_model=list[list[Score]],
    responses=errors(Error, 400, 401, 404, 413, 422, 429, 503),
)
async def infer(body: InferenceRequest, request: Request, model: Chosen) -> JSONResponse:
    """A list of labels with scores for every text, as the Hugging Face inference API answers."""
    answer = await model.answer(request, [body.inputs] if isinstance(body.inputs, str) else body.inputs)
    asked = body.parameters or Parameters()
    scores_NC = SCORES[asked.function_to_apply or "calibrated"](answer)
    return JSONResponse(answer.ranked(scores_NC, asked.top_k))


SCORES: dict[str, Callable[[Answer], NDArray[np.float64]]] = {
    "calibrated": lambda answer: answer.probs,
    "softmax": lambda answer: softmax(answer.raw, 1.0),
    "sigmoid": lambda answer: sigmoid(answer.raw, 1.0),
    "none": lambda answer: answer.raw,
}


@router.post(
    "/v1/classify",
    tags=["classify"],
    response_model=ClassifyResponse,
    responses=errors(VllmError, 400, 401, 404, 413, 429, 503),
)
@router.post(
    "/classify",
    tags=["classify"],
    response_model=ClassifyResponse,
    responses=errors(VllmError, 400, 401, 404, 413, 429, 503),
)
async def classify(body: ClassifyRequest, request: Request, service: Known) -> JSONResponse:
    """Label and all probabilities of every text, as vLLM and SGLang answer."""
    model = service.model(body.model)
    answer = await model.answer(request, [body.input] if isinstance(body.input, str) else body.input)
    return JSONResponse(_classified(model, answer, answer.raw if body.use_activation is False else answer.probs))


def _classified(model: Model, answer: Answer, scores_NC: NDArray[np.float64]) -> dict[str, Any]:
    usage = {"prompt_tokens": answer.tokens, "total_tokens": answer.tokens}
    return {
        "id": f"classify-{uuid.uuid4().hex}",
        "object": "list",
        "created": int(time.time()),
        "model": model.name,
        "data": [
            {"index": i, "label": label, "probs": scores_C.tolist(), "num_classes": len(answer.labels)}
            for i, (label, scores_C) in enumerate(zip(answer.best, scores_NC, strict=True))
        ],
        "usage": {**usage, "completion_tokens": 0, "prompt_tokens_details": None},
    }


@router.get("/health", tags=["service"], responses=errors(Error, 503))
async def health(service: Known) -> dict[str, str]:
    """Whether the service lives: 503 means that it has to be started again."""
    service.require_alive()
    return {"status": "alive"}


@router.get("/ready", tags=["service"], responses=errors(Error, 503))
async def ready(service: Known) -> dict[str, str]:
    """Whether requests are taken: 503 while it stops."""
    service.require_alive()
    return {"status": "ready"}


@router.get("/info", tags=["service"], responses=errors(Error, 401))
async def info(service: Known) -> dict[str, Any]:
    """The first model as text-embeddings-inference describes one, and every model by name."""
    first, limits = service.model(None), service.limits
    names = first.classifier.labels
    by_id = {str(i): name for i, name in enumerate(names)}
    return {
        "model_id": first.name,
        "model_type": {"classifier": {"id2label": by_id, "label2id": {name: i for i, name in enumerate(names)}}},
        "max_input_length": first.classifier.scorer.tokenizer.max_length,
        "max_batch_tokens": limits.batch_tokens,
        "max_client_batch_size": limits.texts,
        "version": __version__,
        "models": {model.name: _described(model.classifier) for model in service.models},
    }


def _described(classifier: TextClassifier) -> dict[str, Any]:
    return {
        "labels": classifier.labels,
        "label_sha256": classifier.label_set.hash,
        "max_length": classifier.scorer.tokenizer.max_length,
        "turns": classifier.num_turns,
        "template": classifier.scorer.tokenizer.template.source,
        "temperature": classifier.temperature,
        "thresholds": classifier.thresholds,
    }


@router.get("/v1/models", tags=["service"], responses=errors(Error, 401))
async def models(service: Known) -> dict[str, Any]:
    """Names of the models, as vLLM lists them."""
    shared = {"object": "model", "created": service.created, "owned_by": "tonetune"}
    return {"object": "list", "data": [{"id": model.name, **shared} for model in service.models]}


@router.get("/metrics", tags=["service"], response_class=Response, responses=errors(Error, 401))
async def metrics(service: Known) -> Response:
    """Counts and times for Prometheus."""
    return Response(service.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    """The page for people."""
    return FileResponse(STATIC / "page.html", headers=PAGE_HEADERS)


@router.get("/docs", include_in_schema=False)
async def docs() -> FileResponse:
    """The OpenAPI document, to read."""
    return FileResponse(STATIC / "docs.html", headers=PAGE_HEADERS)
