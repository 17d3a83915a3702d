"""Texts, labels, rules, caches: what is drawn alike, patterns without end, places that others can write."""

import os
import stat

import numpy as np
import pytest

from tonetune.annotate import weak
from tonetune.annotate.weak import read_rules
from tonetune.cache import cache_root, open_cache, use_private_compile_cache
from tonetune.config import load_config
from tonetune.data.example import Example
from tonetune.data.label_names import look_alikes, suspects
from tonetune.data.prepare import prepare_examples
from tonetune.device.kept import keep, read_kept
from tonetune.errors import ConfigError, DataError, DiskError
from tonetune.report.text import markdown
from tonetune.visible import visible

ALIKE = {
    "composed and not": ("caf\u00e9", "cafe\u0301"),
    "a blank of no width": ("joy", "jo\u200by"),
    "a mark of direction": ("joy", "joy\u200e"),
    "Cyrillic": ("joy", "j\u043ey"),
    "Greek": ("Angst", "\u0391ngst"),
    "blanks": ("not good", "not\u00a0good"),
}


@pytest.mark.parametrize("kind", ALIKE)
def test_two_labels_that_look_the_same_are_refused_and_told_apart(kind):
    pair = ALIKE[kind]
    assert look_alikes([*pair, "anger"]) and not look_alikes(["joy", "anger", "радость", "Joy"])
    rows = [Example(f"text number {i} of them", (pair[i % 2],), f"a:{i}") for i in range(40)]
    with pytest.raises(DataError, match="look the same") as caught:
        prepare_examples(
            rows,
            given={},
            groups={},
            labels=None,
            rename={},
            task="auto",
            allow_leaks=False,
            rng=np.random.default_rng(0),
        )
    assert caught.value.what.isascii()


def test_letters_of_another_script_are_a_near_miss():
    assert suspects({"joy": 50, "j\u043ey": 3, "anger": 40})["near_miss_labels"] == {"j\u043ey": "joy"}


@pytest.mark.parametrize("character", "\u200b\u200e\u200f\u061c\u2028\u2029\u2060\u2066\u202e\ufeff\x1b\x9b")
def test_what_does_not_show_is_spelled_out(character):
    for shown in (visible(f"a{character}b"), markdown(f"a{character}b")):
        assert character not in shown


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{c}: &{c} [{','.join([f'*{b}'] * 9)}]\n" for b, c in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text", [BOMB, "a: " + "[" * 10_000, "a: " + "{b: " * 10_000, "? " * 5000, "a: !!python/name:os.system x"]
)
def test_yaml_is_plain_values_or_an_error(tmp_path, text):
    for read in (load_config, read_rules):
        (tmp_path / "a.yaml").write_text(text)
        with pytest.raises(ConfigError):
            read(tmp_path / "a.yaml")


def rules(tmp_path, *functions):
    (tmp_path / "rules.yaml").write_text("functions:\n" + "".join(f"- {function}\n" for function in functions))
    return read_rules(tmp_path / "rules.yaml")


def test_a_pattern_that_tries_every_way_ends_with_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(weak, "REGEX_LIMIT_S", 0.05)
    found = rules(tmp_path, "{name: slow, label: a, regex: '(x+x+)+y'}", "{name: b, label: b, words: [b]}")
    with pytest.raises(ConfigError, match="regex of 'slow' takes more than"):
        found.votes(["b", "x" * 5000], lambda *_: pytest.fail("no model"))


@pytest.mark.parametrize("name", ["../words.tsv", "/etc/passwd", "a/../../words.tsv"])
def test_rules_read_no_lexicon_elsewhere(tmp_path, name):
    (tmp_path / "words.tsv").write_text("mine\ta\n")
    (tmp_path / "rules").mkdir()
    found = rules(tmp_path / "rules", f"{{name: far, lexicon: {name}, labels: {{a: x, b: y}}}}")
    with pytest.raises(ConfigError, match="not a file beside the rules"):
        found.votes(["b"], lambda *_: pytest.fail("no model"))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    monkeypatch.setenv("TONETUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_cache_is_made_for_its_owner_alone(cache):
    before = os.umask(0)
    try:
        open_cache()
        use_private_compile_cache()
    finally:
        os.umask(before)
    assert mode(cache) == 0o700
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        assert os.environ[variable].startswith(str(cache)) and mode(cache / variable.split("_")[0].lower()) == 0o700


def test_torch_compiles_into_the_private_place(cache):
    """Torch asks for its variable whenever it compiles; by itself it takes a name below /tmp that anyone can take."""
    use_private_compile_cache()
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    assert cache_dir() == str(cache / "torchinductor")


def test_a_cache_that_others_can_write_is_mended(cache):
    cache.mkdir()
    cache.chmod(0o777)
    assert cache_root() == cache and mode(cache) == 0o755


def test_a_cache_of_another_user_is_refused_and_nothing_in_it_is_believed(cache, monkeypatch):
    keep("speed", "key", 7)
    assert read_kept("speed", "key") == 7
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr("tonetune.cache.ROOT", 54321)
    for opened in (cache_root, open_cache, use_private_compile_cache):
        with pytest.raises(DiskError, match="another user"):
            opened()
    assert read_kept("speed", "key") is None


def test_a_compile_cache_that_is_named_is_checked_too(cache, tmp_path, monkeypatch):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "shared"))
    use_private_compile_cache()
    assert mode(tmp_path / "shared") == 0o755
