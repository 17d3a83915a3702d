"""Laws of foreign text that is shown."""

from tonetune.visible import visible


def test_what_acts_is_spelled_out_and_what_shows_stays():
    assert visible("a\x1b[2Jb\x9bc\u202ed\ud800") == "a[U+001B][2Jb[U+009B]c[U+202E]d[U+D800]"
    for text in ("烦死了 😭", "tab\tline\n", "👨‍👩‍👧", "naïve <b> {{x}}"):
        assert visible(text) == text
