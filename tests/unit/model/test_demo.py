"""The demo base: the real Gemma 3 270M, made once, whole or not at all, and its golden tokens."""

import dataclasses
import errno
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tonetune.data.template import Template
from tonetune.data.tokens import read_tokenizer
from tonetune.errors import DiskError, MissingExtraError, ModelError
from tonetune.labels import LabelSet
from tonetune.model import demo, gguf_base
from tonetune.model.artefact import fingerprint, save_tokenizer, text_tokenizer
from tonetune.model.demo import GGUF_SHA256, PACKAGE
from tonetune.model.head import choose_words
from tonetune.model.loading import language_model_loss, load_base
from tonetune.model.source import find_base

real = pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason=f"{PACKAGE} is not installed")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of this test's own."""
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def left_in(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


def refused(kind, match):
    with pytest.raises(kind, match=match) as caught:
        find_base("demo")
    return caught.value


class Package:
    """A package of one part."""

    def __init__(self, part: Path) -> None:
        self.part = part

    def chunk_paths(self) -> list[Path]:
        return [self.part]


@pytest.fixture
def part(tmp_path, monkeypatch):
    """The only part of the installed package."""
    monkeypatch.setitem(sys.modules, PACKAGE, Package(tmp_path / "part00"))
    monkeypatch.setitem(sys.modules, "gguf", Package(tmp_path))
    return tmp_path / "part00"


# --- what can go wrong, without the real package


@pytest.mark.parametrize("name", [PACKAGE, "gguf"])
def test_without_a_package_the_error_names_the_extra(cache, part, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    refused(MissingExtraError, "demo model needs the extra 'demo'")
    assert left_in(cache) == []


def test_a_damaged_package_is_refused_and_leaves_nothing(cache, part):
    part.write_bytes(b"GGUF something else")
    assert "--force-reinstall" in str(refused(ModelError, r"checksum is .*, expected a5fd3b62230a").hint)
    assert left_in(cache) == []


def test_a_package_with_a_part_missing_is_refused(cache, part):
    refused(ModelError, "part of the demo model is missing: part00")
    assert left_in(cache) == []


def test_a_part_that_cannot_be_read_is_no_fault_of_the_cache(cache, part, monkeypatch):
    def broken(path, mode):
        if mode == "rb":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return open(path, mode)

    part.write_bytes(b"GGUF")
    monkeypatch.setattr(demo, "open", broken, raising=False)
    error = refused(ModelError, "cannot be read: Input/output error")
    assert error.where == str(part) and "--force-reinstall" in str(error.hint)
    assert left_in(cache) == []


def test_without_room_nothing_is_begun(cache, monkeypatch):
    monkeypatch.setattr(gguf_base, "write_demo_file", None)
    monkeypatch.setattr("tonetune.model.cache.shutil.disk_usage", lambda path: SimpleNamespace(free=100 << 20))
    refused(DiskError, "the demo model needs 241 MiB while it is made, and 100 MiB are free")
    assert left_in(cache) == []


def test_a_disk_that_fills_up_is_a_disk_error_and_leaves_nothing(cache, monkeypatch):
    def blocks():
        yield b"GGUF"
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(demo, "_package_blocks", blocks)
    refused(DiskError, "the disk is full")
    assert left_in(cache) == []


def test_another_version_of_the_demo_model_is_found_in_the_cache_or_asked_for(cache, tiny_gemma):
    with pytest.raises(ModelError, match=f"SHA-256 {GGUF_SHA256}, and {'0' * 64} is needed"):
        find_base("demo", revision="0" * 64)
    shutil.copytree(tiny_gemma, cache / f"gguf-{'0' * 64}-{gguf_base.CONVERSION}")
    assert find_base("demo", revision="0" * 64).revision == "0" * 64


# --- the real thing


GOLDEN = {
    "This is the best film of the year!": [2094, 563, 506, 1791, 4103, 529, 506, 1051, 236888],
    "Hello, world!": [9259, 236764, 1902, 236888],
    "I can't believe they cancelled my flight again... 😡": [
        *(236777, 740, 236789, 236745, 4646, 901, 35601, 1041, 10224, 1570, 1390, 236743, 244053),
    ],
    "这家酒店的早餐很好吃，服务也热情。": [
        *(128642, 54169, 236918, 113811, 55824, 238606, 236900, 12538, 237349, 172653, 236924),
    ],
    "烦死了，等了三个小时": [241141, 104319, 236900, 237520, 237089, 49038, 44466],
    "  two  spaces\nand a line": [138, 13498, 138, 35220, 107, 624, 496, 1757],
}
ENGLISH = (
    "The weather was cold and rainy, so we stayed at home, drank tea and watched an old film about a long journey."
)
CHINESE = "昨天天气又冷又下雨，我们就待在家里喝茶，看了一部关于长途旅行的老电影，晚上还一起做了一顿丰盛的晚饭。"


@pytest.fixture(scope="module")
def base():
    return load_base(find_base("demo"), dtype=torch.float32, device=torch.device("cpu"), attention="sdpa", gate=True)


@real
@pytest.mark.slow
def test_the_tokenizer_gives_golden_sequences_with_bos_once():
    tokenizer = read_tokenizer(find_base("demo").directory)
    assert tokenizer.get_vocab_size() == 262_144
    for text, ids in GOLDEN.items():
        assert tokenizer.encode(text).ids == [2, *ids]
        assert tokenizer.encode(text, add_special_tokens=False).ids == ids
        assert tokenizer.decode(ids) == text


@real
@pytest.mark.slow
def test_tokens_are_words_and_not_fragments():
    """A tokenizer rebuilt wrongly needs four times the tokens, and nothing else complains."""
    tokenizer = read_tokenizer(find_base("demo").directory)
    per_character = [len(tokenizer.encode(text).ids) / len(text) for text in (ENGLISH, CHINESE)]
    assert 0.15 < per_character[0] < 0.3
    assert 0.4 < per_character[1] < 0.8


@real
@pytest.mark.slow
def test_the_real_model_passes_the_gate(base):
    assert base.gate_loss is not None and 1.0 < base.gate_loss < 4.0
    assert (base.hidden, base.bos_id, base.pad_id) == (640, 2, 0)
    assert fingerprint(base.source) == GGUF_SHA256


@real
@pytest.mark.slow
def test_the_real_model_needs_its_bos(base):
    assert language_model_loss(dataclasses.replace(base, bos_id=None)) > base.gate_loss + 2


@real
@pytest.mark.slow
def test_every_path_has_bos_once_and_words_that_differ(base):
    for template, language in (("{text}\nSentiment:", "en"), ("{text}\n情感：", "zh")):
        tokenizer = text_tokenizer(base, template=Template.parse(template), max_length=64)
        for row in tokenizer.encode([*GOLDEN, "<bos>", "<start_of_turn>user", "", CHINESE * 9]).ids:
            assert row[0] == 2 and (np.asarray(row[1:]) > 3).all() and 105 not in row
        words = choose_words(LabelSet(("negative", "positive")), tokenizer, language=language)
        assert words is not None and words.note is None


@real
@pytest.mark.slow
def test_transformers_reads_a_raw_text_with_the_saved_tokenizer_as_tonetune_does(base, tmp_path):
    from transformers import AutoTokenizer

    tokenizer = text_tokenizer(base, template=Template.parse("{text}\n情感："), max_length=64)
    save_tokenizer(tmp_path, base, tokenizer)
    shutil.copy(base.source.directory / "config.json", tmp_path)  # by which transformers may choose another class
    plain = AutoTokenizer.from_pretrained(tmp_path)
    texts = [*GOLDEN, "<bos>", "<start_of_turn>user", ""]
    for text, row in zip(texts, tokenizer.encode(texts).ids, strict=True):
        assert plain(text)["input_ids"] == row.tolist()
    assert plain(CHINESE * 9, truncation=True)["input_ids"][-2:] == row.tolist()[-2:]


BUILD = "from tonetune.model.source import find_base; print(find_base('demo').directory)"
CACHE_NAME = f"gguf-{GGUF_SHA256}-{gguf_base.CONVERSION}"


def start(cache: Path) -> "subprocess.Popen[str]":
    """A build in a session of its own, so that it can be killed with its children."""
    return subprocess.Popen(
        [sys.executable, "-c", BUILD],
        env={**os.environ, "TONETUNE_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@real
@pytest.mark.slow
def test_a_killed_build_leaves_no_model(tmp_path):
    killed = start(tmp_path)
    while not any(tmp_path.glob(f".{CACHE_NAME}.*/demo.gguf")):
        assert killed.poll() is None
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    (left,) = left_in(tmp_path)
    assert left.startswith(f".{CACHE_NAME}."), "a staging directory, which a later build removes"
