"""Labels in a file beside the texts: as many, in order, with names from a codebook."""

from pathlib import Path

import pytest

from tonetune.data.inspect import inspect_files
from tonetune.data.readers import ReadOptions, read_table
from tonetune.errors import DataError, UsageError


def saved(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_labels_stand_beside_their_lines(tmp_path: Path) -> None:
    texts = saved(tmp_path / "texts.txt", "joy: one\n\nthree\tfour\n")
    labels = saved(tmp_path / "labels.txt", "1\n0\n\n")
    table = read_table(texts, ReadOptions(label_file=labels))
    assert [(row["text"], row["label"]) for row in table.rows] == [("joy: one", "1"), ("", "0"), ("three\tfour", "")]
    csv = saved(tmp_path / "a.csv", 'id,text\n1,"a\nb"\n2,c\n\n3,d\n')
    assert [row["label"] for row in read_table(csv, ReadOptions(label_file=labels)).rows] == ["1", "0", ""]


def test_a_line_too_few_or_a_label_column_is_an_error(tmp_path: Path) -> None:
    labels = saved(tmp_path / "labels.txt", "1\n0\n")
    with pytest.raises(DataError, match="2 labels for the 3 rows") as error:
        read_table(saved(tmp_path / "a.txt", "a\nb\nc\n"), ReadOptions(label_file=labels))
    assert error.value.where == str(labels)
    with pytest.raises(UsageError, match="'label' of its own"):
        read_table(saved(tmp_path / "a.csv", "text,label\na,b\nc,d\n"), ReadOptions(label_file=labels))
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "a.txt", ReadOptions(label_file=tmp_path / "none.txt"))


def test_one_file_of_labels_belongs_to_one_file(tmp_path: Path) -> None:
    texts = saved(tmp_path / "a.txt", "a b\nc d\n")
    labels = saved(tmp_path / "labels.txt", "p\nn\n")
    with pytest.raises(UsageError, match="one file of labels for 2 files") as error:
        inspect_files([texts, texts], text="auto", label="auto", options=ReadOptions(label_file=labels))
    assert "--to" in str(error.value.hint)


def test_real_rows_from_parallel_files_and_a_codebook(shared_data: Path, tmp_path: Path) -> None:
    source = read_table(shared_data / "en_tweeteval_emotion" / "val.csv")
    names = ["anger", "joy", "optimism", "sadness"]
    texts = saved(tmp_path / "val_text.txt", "".join(f"{row['text']}\n" for row in source.rows))
    codes = saved(tmp_path / "val_labels.txt", "".join(f"{names.index(row['label'] or '')}\n" for row in source.rows))
    mapping = saved(tmp_path / "mapping.txt", "".join(f"{i}\t{name}\n" for i, name in enumerate(names)))
    options = ReadOptions(label_file=codes, codebook=mapping)
    (reading,) = inspect_files([texts], text="auto", label="auto", options=options).readings
    assert [(e.text, e.label) for e in reading.examples] == [(row["text"], row["label"]) for row in source.rows]
