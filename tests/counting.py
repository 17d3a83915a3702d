"""For tests of the service: a classifier that needs no model, and a live service over it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from tonetune.data.cleaning import STANDARD_RULES
from tonetune.data.template import Template
from tonetune.data.tokens import TextTokenizer
from tonetune.labels import LabelSet
from tonetune.runtime import TextClassifier

LABELS = ("anger", "joy", "sadness")
MAX_LENGTH = 48
TEMPERATURE = 1.7
WEIGHTS = np.random.default_rng(0).normal(size=(4096, len(LABELS))).astype(np.float32)


@dataclass
class CountingScorer:
    """Logits are sums of a random row for each token, so they depend on the text alone. Waits while `held` is set."""

    tokenizer: TextTokenizer
    calls: list[list[int]] = field(default_factory=list)
    held: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    failure: Exception | None = None

    def __post_init__(self):
        self.let_go()

    def hold(self):
        self.held.clear()
        self.begun.clear()

    def let_go(self):
        self.held.set()

    def logits(self, ids, *, done=lambda texts: None):
        self.calls.append([len(row) for row in ids])
        self.begun.set()
        assert self.held.wait(20)
        if self.failure is not None:
            raise self.failure
        return np.stack([WEIGHTS[row].sum(axis=0) / len(row) for row in ids])


def classifier(tokenizer: Tokenizer, *, thresholds: dict[str, float] | None = None) -> TextClassifier:
    """A classifier of three labels and at most 48 tokens, at a temperature of its own; with thresholds multi-label."""
    template = Template.parse("{text}\nEmotion:")
    texts = TextTokenizer(tokenizer, template=template, bos_id=2, pad_id=0, max_length=MAX_LENGTH)
    return TextClassifier(CountingScorer(texts), LabelSet(LABELS), TEMPERATURE, STANDARD_RULES, thresholds)


@contextmanager
def serving(classifier: TextClassifier, *, limits: Any, **options: Any) -> Iterator[str]:
    """The address of a live service over the classifier, in a thread."""
    import uvicorn

    from tonetune.serve.app import create_app
    from tonetune.serve.server import bound

    app = create_app({"demo": classifier}, limits=limits, **options)
    listener = bound("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=10))
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
