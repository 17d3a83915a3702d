"""The chat template of an instruction-tuned checkpoint: what stands around a person's message."""

import textwrap
import threading
from dataclasses import dataclass
from pathlib import Path

from tonetune.data.tokens import read_tokenizer_config
from tonetune.documents import without_panics
from tonetune.errors import ModelError

MESSAGE = "tonetune-message"
LIMIT_S = 20  # reading the largest tokenizer takes five


@dataclass(frozen=True)
class Chat:
    """The text before a person's message and the text after it, up to where the answer's first word stands."""

    before: str
    after: str

    def around(self, message: str) -> str:
        """The message with both around it."""
        return f"{self.before}{message}{self.after}"


def read_chat(directory: Path) -> Chat | None:
    """The chat template of a model directory, None where there is none. Raises ModelError for a broken one."""
    if not _has_chat_template(directory):
        return None
    before, found, after = _rendered(directory).partition(MESSAGE)
    if not found or MESSAGE in after:
        raise ModelError("the chat template does not hold the message once", where=str(directory))
    return Chat(before, after)


def _rendered(directory: Path) -> str:
    """The template around a message, by transformers, whose sandbox it cannot leave, within LIMIT_S seconds.

    A template is a program: one that does not end goes on beside this thread until the process ends.
    """
    from transformers import AutoTokenizer

    found: list[str | Exception] = []

    def render() -> None:
        try:
            with without_panics():
                tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
            message = [{"role": "user", "content": MESSAGE}]
            found.append(
                str(
                    tokenizer.apply_chat_template(
                        message, tokenize=False, add_generation_prompt=True, enable_thinking=False
                    )
                )
            )
        except Exception as error:  # a template raises whatever it likes
            found.append(error)

    thread = threading.Thread(target=render, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    result = found[0] if found else TimeoutError(f"it does not end within {LIMIT_S} s")
    if isinstance(result, Exception):
        what = f"the chat template cannot be used: {textwrap.shorten(str(result) or type(result).__name__, 200)}"
        raise ModelError(what, where=str(directory)) from result
    return result


def _has_chat_template(directory: Path) -> bool:
    return (directory / "chat_template.jinja").is_file() or "chat_template" in read_tokenizer_config(directory)
