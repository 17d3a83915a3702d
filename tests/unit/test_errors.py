"""Laws of the errors: each says where, what and what to do, in few lines, and comes whole out of another process."""

import inspect
import json
import pickle

import pytest

from tonetune import errors
from tonetune.errors import ConfigError, DataError, MissingExtraError, TonetuneError, UnknownLabelError, listed

CLASSES = [c for c in vars(errors).values() if inspect.isclass(c) and c.__module__ == errors.__name__]


def test_every_error_has_the_root_and_an_exit_code_of_the_contract():
    assert len(CLASSES) > 8
    for cls in CLASSES:
        assert issubclass(cls, TonetuneError)
        assert cls.exit_code in {1, 2, 3, 4, 5, 6, 7, 130}
        assert cls is TonetuneError or cls.exit_code != 1, "1 is left to bugs"


def test_an_error_prints_where_what_and_what_to_do():
    error = UnknownLabelError("label 'x' is not one of a, b", where="train.csv:17", hint="map it")
    assert str(error) == "train.csv:17: label 'x' is not one of a, b\n  try: map it"
    assert str(DataError("no row")) == "no row"


def test_an_error_is_one_json_object_with_the_keys_of_the_contract():
    document = json.loads(json.dumps(DataError("no row", where="a.csv").as_dict()))
    assert document == {"type": "DataError", "what": "no row", "where": "a.csv", "hint": None, "exit_code": 3}


def test_a_missing_extra_names_the_command_that_installs_it():
    error = MissingExtraError("report", needed_for="the HTML report")
    assert error.hint == "pip install 'tonetune[report]'"
    assert "the HTML report" in error.what


@pytest.mark.parametrize("count", [1, 2, 9, 10, 1000])
def test_a_config_error_keeps_every_problem_and_prints_at_most_a_dozen_lines(count):
    error = ConfigError([f"c.yaml:{i}: wrong" for i in range(count)], where="c.yaml", hint="read docs/config.md")
    assert len(error.problems) == count
    lines = str(error).splitlines()
    assert len(lines) <= 12
    listed = sum("wrong" in line for line in lines)
    more = next((int(line.split()[1]) for line in lines if line.strip().startswith("and ")), 0)
    assert listed + more == count


@pytest.mark.parametrize(
    "error",
    [
        DataError("no row", where="a.csv:1", hint="add one"),
        ConfigError(["a is wrong", "b is wrong"], where="c.yaml"),
        MissingExtraError("onnx", needed_for="the export"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_whole_out_of_another_process(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


@pytest.mark.parametrize("count", [0, 1, 9, 10, 1234])
def test_a_list_of_names_is_short_and_counts_the_rest(count):
    names = [f"n{i}" for i in range(count)]
    assert listed(names, count) == ", ".join(names)
    parts = listed(iter(names)).split(", ")
    assert len(parts) <= 10 or count == 0
    if count > 9:
        assert parts[:-1] == names[:9]
        assert int(parts[-1].split()[1].replace(",", "")) == count - 9
