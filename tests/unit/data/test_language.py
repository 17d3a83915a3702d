"""The dominant language by its letters."""

from tonetune.data.language import dominant_language


def test_chinese_and_english() -> None:
    assert dominant_language(["这个产品很好", "iPhone 很不错", "OK"]) == "zh"
    assert dominant_language(["a fine film", "the 太极 scene"]) == "en"
    assert dominant_language([]) == "en"
    assert dominant_language(["123 😀 !!!"]) == "en"


def test_many_texts_are_sampled_evenly() -> None:
    assert dominant_language(["好的" if i % 4 else "fine" for i in range(100_000)]) == "zh"
