"""Requests and answers of the routes, as their clients know them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

Texts = Annotated[list[str], Field(min_length=1)]


class PredictRequest(BaseModel):
    """As text-embeddings-inference takes it; there a flat list of two texts is a pair."""

    inputs: str | Texts | Annotated[list[Texts], Field(min_length=1)] = Field(
        description="a text, or a list of lists of one text each", examples=["I am so happy", [["one"], ["two"]]]
    )
    truncate: bool | None = Field(
        default=None, description="false: refuse a text over the limit instead of cutting its middle"
    )
    raw_scores: bool = Field(default=False, description="scores before softmax or sigmoid")


class Parameters(BaseModel):
    """As the Hugging Face inference API has them for text classification."""

    top_k: Annotated[int, Field(ge=1)] | None = Field(default=None, description="the most probable labels only")
    function_to_apply: Literal["softmax", "sigmoid", "none"] | None = Field(
        default=None, description="if absent, sigmoid where a text has any number of labels, else softmax"
    )


class InferenceRequest(BaseModel):
    """As the Hugging Face inference API takes it."""

    inputs: str | Texts = Field(examples=["I am so happy"])
    parameters: Parameters | None = None


class ClassifyRequest(BaseModel):
    """As vLLM and SGLang take it."""

    model: str | None = Field(default=None, description="name of a model; the first one if absent")
    input: str | Texts = Field(examples=["I am so happy"])
    use_activation: bool | None = Field(default=None, description="false: scores before softmax or sigmoid")


class Score(BaseModel):
    """A label and its probability."""

    label: str
    score: float


class Classified(BaseModel):
    """A text by its place in the request; `probs` in the order of the model's labels."""

    index: int
    label: str
    probs: list[float]
    num_classes: int


class Usage(BaseModel):
    prompt_tokens: int
    total_tokens: int
    completion_tokens: int = 0
    prompt_tokens_details: None = None


class ClassifyResponse(BaseModel):
    """As vLLM and SGLang answer."""

    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[Classified]
    usage: Usage


class TeiError(BaseModel):
    error: str
    error_type: str


class VllmErrorInfo(BaseModel):
    message: str
    type: str
    param: str | None
    code: int


class VllmError(BaseModel):
    error: VllmErrorInfo


class ErrorInfo(BaseModel):
    type: str
    what: str
    hint: str


class Error(BaseModel):
    error: ErrorInfo


def errors(shape: type[BaseModel], *statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route's documentation says of its errors."""
    return {status: {"model": shape} for status in statuses}
