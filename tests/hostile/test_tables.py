"""Files of rows from strangers: small ones that would take hours or all memory, and names that lead elsewhere."""

import contextlib
import gzip
import io
import json
import time
import zipfile
from pathlib import Path

import openpyxl
import polars
import pytest

from tonetune.annotate.exchange import read_annotations
from tonetune.api.files import rows_of_stream, write_predictions
from tonetune.data.label_cells import pieces_of
from tonetune.data.readers import read_table
from tonetune.errors import DataError
from tonetune.evaluation.predictions import write_confusion

DEEP = 10_000
ARRAY = "[" * DEEP + "]" * DEEP
OBJECT = '{"a":' * DEEP + "1" + "}" * DEEP
FORMULAS = [
    "=cmd|' /C calc'!A0",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1+1",
    "'=1",
    "''@x",
    "'quoted'",
    "plain",
]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_header_of_equal_names_costs_no_more_than_its_length(tmp_path):
    """Thousands of columns of one name took minutes: each looked for a free number from the first one on."""
    path = write(tmp_path / "a.csv", ",".join(["a"] * 9000) + "\n" + ",".join("x" * 9000) + "\n")
    begun = time.perf_counter()
    columns = read_table(path).columns
    assert time.perf_counter() - begun < 2
    assert columns[:3] == ["a", "a.2", "a.3"] and len(set(columns)) == 9000


def test_a_wide_header_above_short_rows_costs_no_more_than_the_file(tmp_path):
    path = write(tmp_path / "a.csv", ",".join(f"c{i}" for i in range(5000)) + "\n" + "x\n" * 2000)
    assert sum(map(len, read_table(path).rows)) == 2000


@pytest.mark.parametrize("value", [ARRAY, OBJECT, "9" * 5000], ids=["array", "object", "number"])
def test_json_that_is_too_much_is_an_error_of_the_row(tmp_path, value):
    row = '{"text": ' + value + "}\n"
    for path in (write(tmp_path / "a.jsonl", row), write(tmp_path / "a.json", f"[{row}]")):
        with pytest.raises(DataError) as caught:
            read_table(path)
        assert str(caught.value.where).startswith(f"{path}:1")
    with pytest.raises(DataError, match="standard input:1"):
        rows_of_stream(row.encode(), plain=False)
    with pytest.raises(DataError):  # by who reads any file of labelled rows
        read_annotations(tmp_path / "a.jsonl")
    if value != OBJECT:
        assert pieces_of(f"[{value}]", "json")


@pytest.mark.parametrize(
    "annotations",
    [
        '[{"result": [{"type": "choices", "vavue": 1}]}]',
        '[{"result": [7]}]',
        "[null]",
        "7",
        '[{"result": [{"type": "choices", "value": []}]}]',
    ],
)
def test_annotations_of_another_shape_are_an_error_of_their_task(tmp_path, annotations):
    """Found by scripts/fuzz."""
    path = write(tmp_path / "a.json", f'[{{"id": 5, "data": {{"text": "a"}}, "annotations": {annotations}}}]')
    with pytest.raises(DataError, match="not Label Studio's") as caught:
        read_annotations(path)
    assert str(caught.value.where).endswith("task 5")


def test_a_long_name_around_many_fields_is_refused(tmp_path):
    """Each field below it would repeat it: megabytes of file, terabytes of names."""
    path = write(tmp_path / "a.jsonl", json.dumps({"k" * 5000: {str(i): 1 for i in range(1000)}}) + "\n")
    with pytest.raises(DataError, match="more than 1,000 characters"):
        read_table(path)


def test_what_is_no_number_is_no_label(tmp_path):
    """pandas writes NaN for a missing label."""
    path = write(tmp_path / "a.jsonl", '{"text": "a", "label": NaN}\n{"text": "b", "label": -Infinity}\n')
    assert [row["label"] for row in read_table(path).rows] == ["NaN", "-Infinity"]


def sheet_of(cells: int, text: str) -> bytes:
    book, file = openpyxl.Workbook(write_only=True), io.BytesIO()
    sheet = book.create_sheet()
    for _ in range(cells):
        sheet.append([text, "x"])
    book.save(file)
    return file.getvalue()


def shared(data: bytes) -> bytes:
    """The workbook with its first text shared by all cells, as Excel writes equal texts."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry, old.read(entry))
    return out.getvalue()


def test_a_text_that_many_cells_share_is_counted_for_each(tmp_path):
    """A workbook holds a long text once, and a million cells may show it."""
    path = write(tmp_path / "a.xlsx", shared(sheet_of(2000, "long " * 6000)))
    assert path.stat().st_size < 600_000
    with pytest.raises(DataError, match="unpack to"):
        read_table(path)


def test_a_merged_cell_over_a_whole_sheet_costs_no_more_than_the_limit(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["text", "label"])
    for i in range(600):
        book.active.append([None, f"x{i}"])
    book.active["A2"] = "long " * 6000
    book.active.merge_cells("A2:A601")
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(DataError, match="unpack to"):
        read_table(tmp_path / "a.xlsx")


def test_gigabytes_of_equal_cells_in_a_parquet_file_are_refused(tmp_path):
    frame = polars.DataFrame({"text": ["long " * 200] * 100_000, "label": ["x"] * 100_000})
    frame.write_parquet(tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    with pytest.raises(DataError, match="unpack to"):
        read_table(tmp_path / "a.parquet")


def test_a_parquet_file_at_which_its_reader_panics_is_an_error(tmp_path):
    file = io.BytesIO()
    polars.DataFrame({"text": ["a happy day"] * 6, "label": ["joy"] * 6}).write_parquet(file)
    data = file.getvalue()
    for at in range(4, len(data) - 8, 23):
        for byte in (b"\0", b"\xff"):
            damaged = write(tmp_path / "a.parquet", data[:at] + byte * 3 + data[at + 3 :])
            with contextlib.suppress(DataError):
                read_table(damaged)


def test_a_table_that_ends_its_reader_is_an_error(tmp_path):
    """Found by scripts/fuzz: polars asked for two exbibytes, and aborted the process."""
    data = (Path(__file__).parent / "aborts.parquet").read_bytes()
    with pytest.raises(DataError, match="ends whatever reads it"):
        read_table(write(tmp_path / "a.parquet", data))
    polars.DataFrame({"text": ["a", "b"], "label": ["x", "y"]}).write_parquet(tmp_path / "b.parquet")
    assert len(read_table(tmp_path / "b.parquet")) == 2, "the next one is read"


@pytest.mark.parametrize("name", ["a.csv.gz", "a.xlsx"])
def test_a_bomb_is_refused_with_its_sizes(tmp_path, name):
    data = bytes(64 << 20)
    if name.endswith("gz"):
        packed = gzip.compress(data, compresslevel=1)
    else:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("xl/worksheets/sheet1.xml", data)
        packed = file.getvalue()
    with pytest.raises(DataError, match=r"bytes unpack to .* or more, over 100 times"):
        read_table(write(tmp_path / name, packed))


OUTSIDE = ["../secret.arrow", "/etc/passwd", "..", "", "a/b.arrow", 7]


@pytest.mark.parametrize("name", OUTSIDE, ids=repr)
def test_a_dataset_names_no_file_elsewhere(tmp_path, name):
    polars.DataFrame({"text": ["mine"]}).write_ipc_stream(tmp_path / "secret.arrow")
    dataset = tmp_path / "dataset"
    dataset.mkdir()
    write(dataset / "dataset_info.json", '{"features": {}}')
    write(dataset / "state.json", json.dumps({"_data_files": [{"filename": name}]}))
    with pytest.raises(DataError, match=r"state\.json names"):
        read_table(dataset)
    write(dataset / "dataset_dict.json", json.dumps({"splits": [name]}))
    with pytest.raises(DataError, match=r"dataset_dict\.json names"):
        read_table(dataset)


@pytest.mark.parametrize(("said", "written_as"), [({"label": "=joy"}, "=joy"), ({"labels": ["=joy"]}, '["=joy"]')])
@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_formulas_are_texts_in_what_is_written_and_themselves_when_read_back(tmp_path, ending, said, written_as):
    labels = ["=joy", "anger"]
    scores = dict.fromkeys(labels, 0.5)
    rows = [{"text": text, **said, "confidence": 0.5, "scores": scores} for text in FORMULAS]
    path = tmp_path / f"predictions{ending}"
    write_predictions(path, rows, labels)
    table = read_table(path)
    read = [str(row["text"]).replace("\r", "\n") for row in table.rows]  # a carriage return is a line end to XML
    assert read == [text.replace("\r", "\n") for text in FORMULAS]
    assert {row[name] for row in table.rows for name in said} == {written_as}
    if ending == ".csv":
        import csv

        with open(path, encoding="utf-8", newline="") as file:
            written = [cell for row in csv.reader(file) for cell in row]
        assert not [cell for cell in written if cell[:1] and cell[0] in "=+-@\t\r\n＝"]


def test_a_file_that_is_not_ours_keeps_its_apostrophes(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\n'@you' she said,joy\n")
    assert read_table(path).rows[0]["text"] == "'@you' she said"


def test_the_confusion_matrix_holds_no_formula(tmp_path):
    write_confusion(tmp_path / "confusion.csv", [[1, 0], [0, 1]], ["\n=1", "＠x"])
    text = (tmp_path / "confusion.csv").read_text(encoding="utf-8")
    assert "'\n=1" in text and "'＠x" in text


def test_a_name_that_cannot_be_a_file_is_an_error(tmp_path):
    for name in ("a\0.csv", "a" * 300 + ".csv"):
        with pytest.raises(DataError):
            read_table(tmp_path / name)


def test_a_pipe_or_a_device_is_no_file_of_rows(tmp_path):
    """It would be read without end."""
    for name in ("/dev/zero",):
        (tmp_path / "endless.csv").symlink_to(name)
        with pytest.raises(DataError, match="is a device"):
            read_table(tmp_path / "endless.csv")
