"""A classifier on a GGUF file: known by the file's checksum, whatever becomes of file or cache, but not of both."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gguf")

import tiny_gguf


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, filled without starting programs."""
    from tonetune.model import gguf, gguf_base

    def convert(file: Path, directory: Path) -> None:
        for write in gguf.PARTS.values():
            write(file, directory)

    monkeypatch.setattr(gguf_base, "convert", convert)
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.slow
def test_an_adapter_finds_its_file_by_checksum(
    cli: Callable[..., Any],
    emotion_files: dict[str, Path],
    tiny_model: Callable[[str], Path],
    cache: Path,
    tmp_path: Path,
) -> None:
    file = tiny_gguf.write_gguf(tmp_path / "base.gguf", tiny_model("qwen3"))
    settings = ("model.load_gate=off", "train.epochs=1", f"run.dir={tmp_path / 'runs'}")
    flags = [part for setting in settings for part in ("--set", setting)]
    trained = cli("train", "--data", emotion_files["en.csv"], "--model", file, *flags, "--json")
    assert trained.code == 0, trained.err
    assert "converted once" in trained.err
    run = Path(trained.document["run"])
    (sha256,) = (path.name.split("-")[1] for path in cache.glob("gguf-*"))

    read = {name: (run / name).read_text() for name in ("config.yaml", "run.json", "README.md")}
    read |= {name: (run / "adapter" / name).read_text() for name in ("tonetune.json", "adapter_config.json")}
    for name, text in read.items():
        assert sha256 in text, f"{name} does not say on which file it was trained"
    everything = [
        path for path in run.rglob("*") if path.suffix in (".json", ".yaml", ".md", ".log", ".html", ".jsonl")
    ]
    assert len(everything) > 15
    assert [path.name for path in everything if str(cache) in path.read_text(encoding="utf-8")] == []
    manifest = json.loads(read["tonetune.json"])
    assert (manifest["base"], manifest["revision"], manifest["base_fingerprint"]) == (str(file), sha256, sha256)
    assert json.loads(read["adapter_config.json"])["base_model_name_or_path"] == f"sha256:{sha256}"

    before = cli("predict", run, "-i", "so happy")
    file.rename(tmp_path / "moved.gguf")
    assert cli("predict", run, "-i", "so happy").out == before.out
    shutil.rmtree(cache)
    error = cli("predict", run, "-i", "so happy", "--json").error(code=5)
    assert sha256 in error["what"] and error["where"] == str(file) and "back in its place" in error["hint"]
    (tmp_path / "moved.gguf").rename(file)
    again = cli("predict", run, "-i", "so happy")
    assert again.out == before.out and "converted once" in again.err
