"""The chat template of an instruction-tuned checkpoint: what stands around a person's message."""

from dataclasses import dataclass
from pathlib import Path

from tonetune.data.tokens import read_tokenizer_config
from tonetune.errors import ModelError

MESSAGE = "tonetune-message"


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
    from jinja2 import TemplateError
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory, local_files_only=True)
    try:
        rendered = tokenizer.apply_chat_template(
            [{"role": "user", "content": MESSAGE}], tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
    except (TemplateError, ValueError, TypeError) as error:
        raise ModelError(f"the chat template cannot be used: {error}", where=str(directory)) from error
    before, found, after = str(rendered).partition(MESSAGE)
    if not found or MESSAGE in after:
        raise ModelError("the chat template does not hold the message once", where=str(directory))
    return Chat(before, after)


def _has_chat_template(directory: Path) -> bool:
    return (directory / "chat_template.jinja").is_file() or "chat_template" in read_tokenizer_config(directory)
