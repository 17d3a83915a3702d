"""A model of the Hugging Face hub, fetched into the local hub cache; what goes wrong says what to do."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tonetune.data.tokens import tokenizer_file
from tonetune.documents import parse_json
from tonetune.errors import ModelError
from tonetune.model.families import family_of
from tonetune.rundir import writing

SMALL = ("config.json", "model.safetensors.index.json", "tokenizer*", "chat_template.jinja")
WEIGHTS = ("model*.safetensors",)  # beside them, some repositories hold the same in other formats


def fetch_config(name: str, revision: str | None) -> tuple[Path, str]:
    """Download a hub model's config.json alone, or find it in the cache; its directory and the model's commit.

    Raises ModelError for a family, a name or a revision that there is not, for a gated model, for a download that
    failed and where there is neither a network nor a cached copy; DiskError where the cache cannot be written.
    """
    from huggingface_hub import hf_hub_download

    with _hub_errors(name, revision):
        config_path = Path(hf_hub_download(name, "config.json", revision=revision))
    family_of(read_config(config_path), where=name)
    return config_path.parent, config_path.parent.name


def fetch(name: str, revision: str | None) -> tuple[Path, str]:
    """Download a hub model, or find it in the cache; its directory and its commit.

    Weights come last: those of a family that is not supported, or without a tokenizer that can be read, are never
    downloaded. Raises as `fetch_config`.
    """
    from huggingface_hub import snapshot_download

    _, commit = fetch_config(name, revision)
    with _hub_errors(name, revision):
        tokenizer_file(Path(snapshot_download(name, revision=commit, allow_patterns=list(SMALL))))
        return Path(snapshot_download(name, revision=commit, allow_patterns=list(SMALL + WEIGHTS))), commit


def read_config(path: Path) -> dict[str, object]:
    """A config.json. Raises ModelError where it cannot be read or is damaged."""
    try:
        config = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("it holds no mapping")
    except ValueError as error:  # JSON and UTF-8 errors are of this kind too
        raise ModelError(f"config.json is damaged: {error}", where=str(path)) from error
    except OSError as error:
        raise ModelError(f"config.json cannot be read: {error.strerror}", where=str(path)) from error
    return config


def download_command(name: str, revision: str | None) -> str:
    """What a person runs to have the whole model in the cache."""
    return f"hf download {name}" + (f" --revision {revision}" if revision else "")


@contextlib.contextmanager
def _hub_errors(name: str, revision: str | None) -> Iterator[None]:
    """Raises ModelError for whatever the hub's client raises inside, DiskError where its cache cannot be written."""
    from huggingface_hub import constants, errors
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of httpx, from 2.0 on of httpx2

    page = f"huggingface.co/{name}"
    where = f"model.base: {name}"
    again = f"with a network, run: {download_command(name, revision)}"
    try:
        yield
    except errors.GatedRepoError as error:
        raise ModelError(
            f"the model is gated: its licence must be accepted once, and you must be logged in ({_first_line(error)})",
            where=where,
            hint=f"accept the licence on {page}, then run: hf auth login",
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(
            f"the model has no revision {revision!r} ({_first_line(error)})",
            where="model.revision",
            hint=f"see the branches on {page}",
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelError(
            f"no such model on the hub, or it is private ({_first_line(error)})",
            where=where,
            hint="check the name; if private: hf auth login",
        ) from error
    except errors.IncompleteSnapshotError as error:
        raise ModelError(_first_line(error), where=where, hint=again) from error
    except errors.LocalEntryNotFoundError as error:
        silence = f"the hub gave nothing: {_first_line(error.__cause__ or error)}"
        reason = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else silence
        raise ModelError(
            f"the model is not whole in the local hub cache, and {reason}",
            where=where,
            hint=f"{again}; or name a directory",
        ) from error
    except errors.EntryNotFoundError as error:
        raise ModelError(
            f"it holds no model for transformers: it has no config.json ({_first_line(error)})",
            where=where,
            hint=f"see {page}; where it holds GGUF files, run hf download {name} FILE.gguf and name that file",
        ) from error
    except (errors.HFValidationError, errors.HfHubHTTPError) as error:
        raise ModelError(f"the hub refused: {_first_line(error)}", where=where, hint=f"see {page}") from error
    except (HTTPError, errors.XetDownloadError, OSError, RuntimeError) as error:
        if _is_of_the_disk(error):
            with writing(Path(constants.HF_HUB_CACHE)):
                raise
        raise ModelError(f"the download failed: {_first_line(error)}", where=where, hint=again) from error


def _is_of_the_disk(error: Exception) -> bool:
    """Whether the operating system refused a file; OSErrors of the clients carry no number, or are of a connection."""
    of_a_connection = isinstance(error, (ConnectionError, TimeoutError))
    return isinstance(error, OSError) and error.errno is not None and not of_a_connection


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
