"""Laws of text made fit to show."""

import pytest

from tonetune.report.text import duration, markdown, percent, plain, tidy


def test_markdown_is_one_literal_line():
    assert markdown("a | b\n# c") == "a \\| b \\# c"
    assert markdown("喜悦") == "喜悦"


@pytest.mark.parametrize(
    ("seconds", "said"), [(8.42, "8.4 s"), (59.94, "59.9 s"), (205, "3 min 25 s"), (7500, "2 h 5 min"), (0, "0.0 s")]
)
def test_durations(seconds, said):
    assert duration(seconds) == said


def test_numbers():
    assert percent(0.8783) == "87.8\u00a0%"
    for fraction in (0.8875, 0.0625, 0.9995, 1.0):  # the halves, where two ways of rounding would part
        assert float(percent(fraction)[:-2]) == pytest.approx(100 * float(f"{fraction:.3f}"))
    assert [tidy(x) for x in (0.1234, 24.44, 1012.3)] == ["0.123", "24.4", "1,012"]


def test_documents_read_as_sentences():
    assert plain({"model": "x", "cores": 2, "gpus": [], "fast": True}) == "model: x, cores: 2, gpus: none, fast: yes"
    assert plain(None) == "–" and plain([1, 2.5]) == "1; 2.5"
