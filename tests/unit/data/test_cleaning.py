"""Cleaning: what is broken is repaired, what is meant stays, and no row gets lost."""

import random
import time
from pathlib import Path

import pytest

from tonetune.data.cleaning import (
    RULES,
    STANDARD_RULES,
    Changed,
    clean_rows,
    clean_text,
    clean_turns,
    cleaning_rules,
)
from tonetune.data.example import Example
from tonetune.data.readers import read_table
from tonetune.errors import UnknownLabelError
from tonetune.labels import LabelSet

HEALTHY = [
    "今天心情很好！！！（真的）～【推荐】“非常”满意…《红楼梦》·¥100",
    "ｆｕｌｌ　ｗｉｄｔｈ".replace("　", " "),
    "I ♥ it 😀👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 ❤️",
    "[泪][哈哈] @小明 http://t.cn/abc #话题#",
    "a < b and b > c, 1 <b and c> 2, <3 <3, >:(, <user> said 1<2",
    "“Don’t” — she said… naïve café, ﬁne",
    "AT&T R&D &c. & so on",
    "نمی‌خواهم हिन्दी ภาษาไทย 한국어 ぴえん🥺",
]


@pytest.mark.parametrize("text", HEALTHY)
def test_healthy_text_is_left_alone(text: str) -> None:
    assert clean_text(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "cleaned", "rules"),
    [
        ("Ã©tÃ© and donâ€™t", "été and don’t", ("mojibake",)),
        ("ä¸\xadå›½å¾ˆå¥½", "中国很好", ("mojibake",)),
        ("so &lt;b&gt;good&lt;/b&gt; &amp;amp; cheap &#128512;", "so good & cheap 😀", ("markup",)),
        ("one<br/>two<p class='x'>three</p><!-- no -->", "one two three", ("markup", "whitespace")),
        ("zero\u200bwidth\ufeff \x07bell\ud83d", "zerowidth bell", ("control",)),
        ("\u3000 two  \t lines\r\nhere\xa0", "two lines here", ("whitespace",)),
        ("<br><br>", "", ("markup", "whitespace")),
        ("cafe\u0301 \u1112\u1161\u11ab\u1100\u1173\u11af", "café 한글", ("unicode",)),
    ],
)
def test_each_rule_repairs_and_is_counted(text: str, cleaned: str, rules: tuple[str, ...]) -> None:
    assert clean_text(text) == (cleaned, rules)


def test_links_and_names_are_replaced_only_on_request() -> None:
    text = "@some_one see https://a.b/c?d=1，好的 me@mail.com"
    assert clean_text(text) == (text, ())
    replaced = cleaning_rules(urls="placeholder", mentions="placeholder")
    assert clean_text(text, replaced)[0] == "@user see [URL]，好的 me@mail.com"
    removed = cleaning_rules(urls="remove", mentions="remove")
    assert clean_text(text, removed)[0] == "see ，好的 me@mail.com"
    assert cleaning_rules(urls="keep", mentions="keep") == STANDARD_RULES


def test_real_texts_are_changed_rarely_and_cleaning_twice_changes_nothing(shared_data: Path) -> None:
    for name in ("zh_ewect_usual/dev.csv", "zh_brighter_chn/dev.csv", "en_tweeteval_emotion/val.csv"):
        texts = [row["text"] or "" for row in read_table(shared_data / name).rows]
        cleaned = [clean_text(text)[0] for text in texts]
        assert [clean_text(text)[0] for text in cleaned] == cleaned
        assert sum(clean_text(text, ["mojibake"])[1] != () for text in texts) <= 0.01 * len(texts)


def test_rules_run_in_one_order() -> None:
    assert [rule for rule in RULES if rule in STANDARD_RULES] == list(STANDARD_RULES)


def test_every_row_is_kept_or_dropped_with_its_reason() -> None:
    rows = [
        Example(" fine ", (" Joy",), "a.csv:2"),
        Example(" \u200b ", ("joy",), "a.csv:3"),
        Example("no label", (), "a.csv:4"),
        Example("blank label", ("  ",), "a.csv:5"),
        Example("", (), "a.csv:6"),
    ]
    cleaned = clean_rows(rows, rename={"Joy": "joy"}, labels=LabelSet(("joy",)))
    assert cleaned.examples == [Example("fine", ("joy",), "a.csv:2")]
    reasons = {row.example.origin: row.reason for row in cleaned.dropped}
    assert reasons == {
        "a.csv:3": "empty_text",
        "a.csv:4": "missing_label",
        "a.csv:5": "missing_label",
        "a.csv:6": "empty_text",
    }
    assert cleaned.changed == [
        Changed(rows[0], ("whitespace", "label")),
        Changed(rows[1], ("control", "whitespace")),
        Changed(rows[3], ("label",)),
    ]


def test_a_row_that_nothing_changes_stays_the_same_object() -> None:
    rows = [Example("fine", ("joy",), "a.csv:2"), Example("fine ", ("joy",), "a.csv:3")]
    kept = clean_rows(rows, rename={}).examples
    assert kept[0] is rows[0] and kept[1] == Example("fine", ("joy",), "a.csv:3")


def test_rename_comes_first_and_an_unknown_label_names_its_row() -> None:
    rows = [Example("a", ("开心",), "a.csv:2"), Example("b", ("joyful",), "a.csv:3")]
    with pytest.raises(UnknownLabelError, match="joyful") as error:
        clean_rows(rows, rename={"开心": "joy"}, labels=LabelSet(("joy",)))
    assert error.value.where == "a.csv:3"
    both = clean_rows(rows, rename={"开心": "joy", "joyful": "joy"}, labels=LabelSet(("joy",)))
    assert [example.label for example in both.examples] == ["joy", "joy"]


PIECES = (
    "< > & ; # <b> </b> <br <br> <p <!-- --> - ! b a= amp; &amp; lt; &lt; &#8203; #60; &#38; \u200b \xad \ufeff".split(
        " "
    )
)
PIECES += ["e", "\u0301", "\x07", " ", "\t", "好", "Ã©", "â€™", "x", "@", "www.", "https://", "\ud83d", "&#x", "200b;"]


CHOICES = [cleaning_rules(urls=choice, mentions=choice) for choice in ("keep", "placeholder", "remove")]


@pytest.mark.parametrize("rules", [*CHOICES, tuple(RULES), ("markup",), ("control", "markup")])
def test_cleaning_twice_changes_nothing_more(rules: tuple[str, ...]) -> None:
    rng = random.Random(0)
    made = ["".join(rng.choices(PIECES, k=rng.randrange(1, 25))) for _ in range(3000)]
    known = ["<<b>b>x", "&<b>amp;", "&am\u200bp;lt;", "<\u200bb>x", "<" * 300 + "b>" * 300]
    known += ["&" + "amp;" * 300 + "lt;b>", "&#8&#8&#8203;203;203;"]
    for text in made + known:
        cleaned, _ = clean_text(text, rules)
        assert clean_text(cleaned, rules) == (cleaned, ()), repr(text)


@pytest.mark.parametrize("piece", ["<!--", "<b ", "&#", "<", "<!-- -->", "&amp;"])
def test_the_work_grows_with_the_text_only(piece: str) -> None:
    began = time.perf_counter()
    clean_text(piece * 40_000, ["markup"])
    assert time.perf_counter() - began < 1.5


def test_comments_end_where_they_end() -> None:
    assert clean_text("a<!-- b -->c<!---->d<!-- e <!-- f -->g <!-- h", ["markup"])[0] == "a c d g <!-- h"


def test_turns_are_cleaned_one_by_one_and_keep_their_places() -> None:
    text = " a &amp;  b \n\n<b>c</b>\u200b "
    assert clean_turns(text, 3) == ("a & b\n\nc", ("markup", "control", "whitespace"))
    assert clean_turns(text, 1) == clean_text(text)
    assert clean_turns(" \n\u200b\n ", 3)[0] == ""
    row = Example(text, ("joy",), "a:1")
    (cleaned,) = clean_rows([row], rename={}, num_turns=3).examples
    assert cleaned.text == clean_turns(text, 3)[0]


def test_multi_label_rows_may_have_no_label_and_renaming_makes_one_of_two() -> None:
    rows = [Example("a", (), "a:1"), Example("b", ("joy", "Joy"), "a:2")]
    assert [row.reason for row in clean_rows(rows, rename={}).dropped] == ["missing_label"]
    kept = clean_rows(rows, rename={"Joy": "joy"}, multi_label=True).examples
    assert [e.labels for e in kept] == [(), ("joy",)]
