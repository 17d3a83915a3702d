"""Whatever the hub's client raises is an error that says what happened and what to run."""

import errno
import json
import shutil
from fnmatch import fnmatch
from types import SimpleNamespace

import pytest
import tiny
import torch
from huggingface_hub import constants, errors
from transformers import AutoModelForCausalLM

from tonetune.errors import DiskError, ModelError
from tonetune.model.families import family_of
from tonetune.model.hub import read_config
from tonetune.model.loading import load_base
from tonetune.model.source import find_base

COMMIT = "0123456789abcdef0123456789abcdef01234567"
RESPONSE = SimpleNamespace(headers={}, request=None)
TRANSPORT = __import__(errors.HTTPError.__module__.split(".")[0])  # httpx, from 2.0 of the hub's client on httpx2


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """An empty cache and no network."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path / "models--a--b"


@pytest.fixture
def cached(hub, tiny_gemma):
    """A model that an older client put into the cache whole: no list of its files beside it."""
    (hub / "refs").mkdir(parents=True)
    (hub / "refs" / "main").write_text(COMMIT)
    return shutil.copytree(tiny_gemma, hub / "snapshots" / COMMIT)


def refused(match, kind=ModelError):
    with pytest.raises(kind, match=match) as caught:
        find_base("a/b", revision="main")
    assert caught.value.where and caught.value.hint
    assert "\n" not in caught.value.what
    return caught.value


def test_a_hub_name_without_network_says_what_to_run(hub):
    error = refused("not whole in the local hub cache, and HF_HUB_OFFLINE is set")
    assert "hf download a/b --revision main" in error.hint
    with pytest.raises(ModelError) as caught:
        find_base("a/b")
    assert caught.value.hint.startswith("with a network, run: hf download a/b;")


def test_a_cached_model_needs_no_network_and_gives_its_commit(cached):
    source = find_base("a/b")
    assert (source.name, source.directory, source.revision) == ("a/b", cached, COMMIT)
    assert source.config == json.loads((cached / "config.json").read_text())


def in_cache(hub, directory, *, branch="main", commit=COMMIT):
    """A copy of a model directory as the hub's client keeps one: files by content, and links to them by commit."""
    (hub / "refs").mkdir(parents=True, exist_ok=True)
    (hub / "refs" / branch).write_text(commit)
    (hub / "blobs").mkdir(exist_ok=True)
    snapshot = hub / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for file in directory.iterdir():
        blob = hub / "blobs" / f"{commit}-{file.name}"
        shutil.copy(file, blob)
        (snapshot / file.name).symlink_to(blob)
    return snapshot


@pytest.mark.parametrize("family", sorted(tiny.MULTIMODAL))
def test_a_multimodal_sharded_model_loads_from_the_cache_without_network(hub, tiny_model, tmp_path, family):
    """As its checkpoints are: towers beside the text model, weights in parts, a processor's files among them."""
    parts = tmp_path / "parts"
    model = AutoModelForCausalLM.from_pretrained(tiny_model(family))
    model.save_pretrained(parts, max_shard_size="200KB")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_model(family) / name, parts)
    (parts / "processor_config.json").write_text("{}")
    assert len(list(parts.glob("model-*.safetensors"))) > 1
    snapshot = in_cache(hub, parts)
    source = find_base("a/b")
    assert (source.directory, source.revision) == (snapshot, COMMIT)
    kernel = family_of(source.config, where="").kernel
    base = load_base(source, dtype=torch.float32, device=torch.device("cpu"), attention=kernel, gate=False)
    original = tiny.load(tiny_model(family)).body.state_dict()
    assert all(torch.equal(tensor, original[name]) for name, tensor in base.body.state_dict().items())
    next(snapshot.glob("model-00002*")).unlink()
    assert "hf download a/b" in refused("1 of . weight files are missing: model-00002").hint


@pytest.mark.parametrize("revision", ["v2", "1" * 40])
def test_a_revision_is_a_branch_or_a_commit_in_the_cache(hub, tiny_model, revision):
    in_cache(hub, tiny_model("gemma3_text"))
    in_cache(hub, tiny_model("gemma2"), branch="v2", commit="1" * 40)
    source = find_base("a/b", revision=revision)
    assert (source.config["model_type"], source.revision) == ("gemma2", "1" * 40)
    assert find_base("a/b").config["model_type"] == "gemma3_text"
    with pytest.raises(ModelError, match="not whole in the local hub cache"):
        find_base("a/b", revision="v3")


def test_a_model_with_a_sentencepiece_file_alone_says_how_to_make_another(cached, monkeypatch):
    (cached / "tokenizer.json").rename(cached / "tokenizer.model")
    (cached / "model.safetensors").unlink()  # not fetched yet
    error = refused("has no tokenizer.json; of a tokenizer it has tokenizer.model, tokenizer_config.json")
    assert "AutoTokenizer" in error.hint


def test_a_repository_of_processor_files_alone_is_no_model(cached):
    for name in ("config.json", "model.safetensors"):
        (cached / name).unlink()
    (cached / "preprocessor_config.json").write_text("{}")
    refused("not whole in the local")
    with pytest.raises(ModelError, match=r"has no config\.json; it holds .*preprocessor_config\.json"):
        find_base(str(cached))


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors"])
def test_half_a_model_in_the_cache_says_how_to_have_it_whole(cached, lost):
    (cached / lost).unlink()
    error = refused("not whole in the local" if lost == "config.json" else "no weights")
    assert "hf download a/b --revision main" in error.hint


def test_a_snapshot_known_to_be_cut_short_names_the_files_that_are_missing(cached, monkeypatch):
    def cut(*args, **options):
        raise errors.IncompleteSnapshotError("2 file(s) are missing (x.safetensors, y.safetensors).\nmore", str(cached))

    monkeypatch.setattr("huggingface_hub.snapshot_download", cut)
    error = refused(r"missing \(x\.safetensors, y\.safetensors\)")
    assert "not in" not in error.what and "hf download a/b" in error.hint


def test_weights_of_another_family_are_not_fetched(cached, monkeypatch):
    def never(*args, **options):
        pytest.fail("the weights were asked for")

    monkeypatch.setattr("huggingface_hub.snapshot_download", never)
    (cached / "config.json").write_text('{"model_type": "t5gemma"}')
    assert refused("'t5gemma' is not supported").where == "a/b/config.json"


def test_files_come_from_the_commit_of_the_config(cached, monkeypatch):
    asked = []

    def download(name, **options):
        asked.append(options)
        return str(cached)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    find_base("a/b", revision="main")
    assert {options["revision"] for options in asked} == {COMMIT}
    first, last = (options["allow_patterns"] for options in asked)
    for name, wanted in (
        ("model.safetensors", last),
        ("model-00001-of-00002.safetensors", last),
        ("tokenizer.json", first),
    ):
        assert any(fnmatch(name, pattern) for pattern in wanted)
    assert not any(fnmatch("consolidated.safetensors", pattern) for pattern in last)


@pytest.mark.parametrize(
    ("error", "what", "hint"),
    [
        (errors.GatedRepoError("no", response=RESPONSE), "gated.*no", "accept the licence on huggingface.co/a/b"),
        (errors.RepositoryNotFoundError("no", response=RESPONSE), "no such model.*no", "hf auth login"),
        (errors.RevisionNotFoundError("no", response=RESPONSE), "no revision 'main'", "branches"),
        (errors.RemoteEntryNotFoundError("404", response=RESPONSE), "no config.json .404", "hf download a/b FILE.gguf"),
        (errors.HfHubHTTPError("quota\nmore", response=RESPONSE), "the hub refused: quota", "huggingface.co/a/b"),
        (errors.HFValidationError("odd"), "the hub refused: odd", "huggingface.co/a/b"),
        (errors.XetDownloadError("chunk\nmore"), "download failed: chunk", "hf download a/b"),
        (errors.FileMetadataError("no etag"), "download failed: no etag", "hf download a/b"),
        (RuntimeError("Data processing error: cut"), "download failed: Data processing error", "hf download a/b"),
        (PermissionError("Xet token"), "download failed: Xet token", "hf download a/b"),
        (OSError("Consistency check failed"), "download failed: Consistency", "hf download a/b"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "download failed: .*reset", "hf download a/b"),
        *[
            (getattr(TRANSPORT, name)("503 no way\nmore"), "download failed: 503 no way", "hf download a/b")
            for name in ("ProxyError", "ReadError", "RemoteProtocolError", "ConnectError", "ReadTimeout")
        ],
    ],
    ids=repr,
)
@pytest.mark.parametrize("call", ["hf_hub_download", "snapshot_download"])
def test_each_error_of_the_client_says_what_to_do(cached, monkeypatch, call, error, what, hint):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(f"huggingface_hub.{call}", fail)
    assert hint in refused(what).hint


def test_without_a_connection_the_reason_is_named(cached, monkeypatch):
    def fail(*args, **options):
        raise errors.LocalEntryNotFoundError("generic") from TRANSPORT.ConnectError("name or service not known")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    refused("the hub gave nothing: name or service not known")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_cache_that_cannot_be_written_is_an_error_of_the_disk(cached, monkeypatch, number):
    def fail(*args, **options):
        raise OSError(number, "no")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    assert refused("disk is full|cannot be written", DiskError).where == constants.HF_HUB_CACHE


def test_a_config_that_cannot_be_read_is_no_bug(tmp_path):
    with pytest.raises(ModelError, match=r"config\.json cannot be read: No such file"):
        read_config(tmp_path / "config.json")
