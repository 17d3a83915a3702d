"""The demo base: the real Gemma 3 270M, made once, whole or not at all, and its golden tokens."""

import dataclasses
import errno
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from tonetune.data.template import Template
from tonetune.data.tokens import read_tokenizer
from tonetune.errors import DiskError, MissingExtraError, ModelError
from tonetune.labels import LabelSet
from tonetune.model import demo
from tonetune.model.artefact import fingerprint, save_tokenizer, text_tokenizer
from tonetune.model.demo import CACHE_NAME, GGUF_SHA256, PACKAGE, cache_root, demo_base
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


# --- the cache


def test_the_cache_is_where_the_user_says(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("TONETUNE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_root() == Path("/home/me/.cache/tonetune")
    monkeypatch.setenv("XDG_CACHE_HOME", "/fast")
    assert cache_root() == Path("/fast/tonetune")
    monkeypatch.setenv("TONETUNE_CACHE", "~/models")
    assert cache_root() == Path("/home/me/models")


def test_a_whole_cache_is_taken_as_it_is(cache, monkeypatch):
    monkeypatch.setattr(demo, "_build", None)
    (cache / CACHE_NAME).mkdir(parents=True)
    (cache / CACHE_NAME / "config.json").write_text("{}")
    assert demo_base() == cache / CACHE_NAME


# --- what can go wrong, without the real package


def test_without_the_package_the_error_names_the_extra(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    with pytest.raises(MissingExtraError, match="demo model needs the extra 'demo'"):
        demo_base()
    assert left_in(cache) == []


@real
def test_without_the_reader_of_the_file_the_error_names_the_extra(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtraError, match="demo model needs the extra 'demo'"):
        demo_base()
    assert left_in(cache) == []


def test_a_damaged_package_is_refused_and_leaves_nothing(cache, monkeypatch):
    monkeypatch.setattr(demo, "_package_blocks", lambda: iter([b"GGUF", b"something else"]))
    with pytest.raises(ModelError, match=r"checksum is .*, expected a5fd3b62230a") as caught:
        demo_base()
    assert "--force-reinstall" in str(caught.value.hint)
    assert left_in(cache) == []


def test_a_package_with_a_part_missing_is_refused(cache, monkeypatch, tmp_path):
    class Package:
        @staticmethod
        def chunk_paths() -> list[Path]:
            return [tmp_path / "part00"]

    monkeypatch.setitem(sys.modules, PACKAGE, Package)
    monkeypatch.setitem(sys.modules, "gguf", Package)
    with pytest.raises(ModelError, match="part of the demo model is missing: part00"):
        demo_base()
    assert left_in(cache) == []


def test_a_part_that_cannot_be_read_is_no_fault_of_the_cache(cache, monkeypatch, tmp_path):
    class Package:
        @staticmethod
        def chunk_paths() -> list[Path]:
            return [tmp_path / "part00"]

    def broken(path, mode):
        if mode == "rb":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return open(path, mode)

    (tmp_path / "part00").write_bytes(b"GGUF")
    monkeypatch.setitem(sys.modules, PACKAGE, Package)
    monkeypatch.setitem(sys.modules, "gguf", Package)
    monkeypatch.setattr(demo, "open", broken, raising=False)
    with pytest.raises(ModelError, match="cannot be read: Input/output error") as caught:
        demo_base()
    assert caught.value.where == str(tmp_path / "part00") and "--force-reinstall" in str(caught.value.hint)
    assert left_in(cache) == []


class Converter:
    """A conversion that ends as told."""

    returncode = 1

    def __init__(self, last: str) -> None:
        self.last = last

    def communicate(self) -> tuple[None, str]:
        return None, f"Traceback\n{self.last}\n"

    def kill(self) -> None: ...

    def wait(self) -> None: ...


@pytest.mark.parametrize(
    ("last", "error", "what"),
    [
        ("OSError: [Errno 28] No space left on device", DiskError, "the disk is full"),
        ("SafetensorError: I/O error: No space left on device (os error 28)", DiskError, "the disk is full"),
        ("ValueError: odd file", ModelError, "could not be converted: ValueError: odd file"),
    ],
)
def test_a_conversion_that_fails_says_why(cache, monkeypatch, last, error, what):
    monkeypatch.setattr(demo, "_package_blocks", lambda: iter([b"GGUF"]))
    monkeypatch.setattr(demo, "GGUF_SHA256", hashlib.sha256(b"GGUF").hexdigest())
    monkeypatch.setattr(demo.subprocess, "Popen", lambda *args, **options: Converter(last))
    with pytest.raises(error, match=what):
        demo_base()
    assert left_in(cache) == []


def test_a_conversion_that_cannot_begin_says_why(cache, monkeypatch):
    def refuse(*args, **options):
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(demo, "_package_blocks", lambda: iter([b"GGUF"]))
    monkeypatch.setattr(demo, "GGUF_SHA256", hashlib.sha256(b"GGUF").hexdigest())
    monkeypatch.setattr(demo.subprocess, "Popen", refuse)
    with pytest.raises(ModelError, match=r"could not be converted: .*temporarily"):
        demo_base()


def test_without_room_nothing_is_begun(cache, monkeypatch):
    class Usage:
        free = 100 << 20

    monkeypatch.setattr(demo.shutil, "disk_usage", lambda path: Usage)
    monkeypatch.setattr(demo, "_build", None)
    with pytest.raises(DiskError, match="needs 900 MiB while it is made, and 100 MiB are free") as caught:
        demo_base()
    assert "TONETUNE_CACHE" in str(caught.value.hint)
    assert left_in(cache) == []


def test_a_disk_that_fills_up_is_a_disk_error_and_leaves_nothing(cache, monkeypatch):
    def blocks():
        yield b"GGUF"
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(demo, "_package_blocks", blocks)
    with pytest.raises(DiskError, match="the disk is full"):
        demo_base()
    assert left_in(cache) == []


def test_a_cache_that_cannot_be_made_is_a_disk_error(cache):
    cache.write_text("a file")
    with pytest.raises(DiskError) as caught:
        demo_base()
    assert str(cache) in str(caught.value.where)


def test_what_killed_builds_left_is_removed_and_running_ones_are_not(cache, monkeypatch):
    for name, age_s in (("old", 7200), ("new", 60)):
        left = cache / f".{CACHE_NAME}.{name}"
        left.mkdir(parents=True)
        (left / "base.gguf").write_text("half")
        os.utime(left, (time.time() - age_s,) * 2)
    monkeypatch.setattr(demo, "_package_blocks", lambda: iter([b"no"]))
    with pytest.raises(ModelError):
        demo_base()
    assert left_in(cache) == [f".{CACHE_NAME}.new"]


def test_a_run_that_comes_second_keeps_the_first_ones_result(cache, monkeypatch):
    def build(staging: Path) -> None:
        (staging / "config.json").write_text("second")
        (cache / CACHE_NAME).mkdir()
        (cache / CACHE_NAME / "config.json").write_text("first")

    monkeypatch.setattr(demo, "_build", build)
    assert (demo_base() / "config.json").read_text() == "first"
    assert left_in(cache) == [CACHE_NAME]


@pytest.mark.slow
def test_a_file_that_cannot_be_converted_is_refused_and_leaves_nothing(cache, monkeypatch):
    monkeypatch.setattr(demo, "_package_blocks", lambda: iter([b"GGUF but no more"]))
    monkeypatch.setattr(demo, "GGUF_SHA256", hashlib.sha256(b"GGUF but no more").hexdigest())
    with pytest.raises(ModelError, match=r"could not be converted: \w+"):
        demo_base()
    assert left_in(cache) == []


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
    tokenizer = read_tokenizer(demo_base())
    assert tokenizer.get_vocab_size() == 262_144
    for text, ids in GOLDEN.items():
        assert tokenizer.encode(text).ids == [2, *ids]
        assert tokenizer.encode(text, add_special_tokens=False).ids == ids
        assert tokenizer.decode(ids) == text


@real
@pytest.mark.slow
def test_tokens_are_words_and_not_fragments():
    """A tokenizer rebuilt wrongly needs four times the tokens, and nothing else complains."""
    tokenizer = read_tokenizer(demo_base())
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


BUILD = "from tonetune.model.demo import demo_base; print(demo_base())"


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
def test_a_killed_build_leaves_no_model_and_two_at_once_leave_one(tmp_path):
    killed = start(tmp_path)
    while not any(tmp_path.glob(f".{CACHE_NAME}.*/base.gguf")):
        assert killed.poll() is None
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    (left,) = left_in(tmp_path)
    assert left.startswith(f".{CACHE_NAME}."), "a staging directory, which a later build removes"
    both = [start(tmp_path), start(tmp_path)]
    assert [build.communicate()[0].strip() for build in both] == [str(tmp_path / CACHE_NAME)] * 2
    assert [build.returncode for build in both] == [0, 0]
    assert left_in(tmp_path) == sorted([left, CACHE_NAME])
    files = left_in(tmp_path / CACHE_NAME)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(files) and "base.gguf" not in files
    source = find_base(str(tmp_path / CACHE_NAME))
    load_base(source, dtype=torch.bfloat16, device=torch.device("cpu"), attention="sdpa", gate=True)
