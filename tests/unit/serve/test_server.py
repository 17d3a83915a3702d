"""Laws of the process: names of models, keys, and ports."""

import os
import socket
import sys

import pytest

from tonetune.errors import DataError, MissingExtraError, UsageError
from tonetune.serve.server import bound, limit_caches, named_runs, read_keys, require_extra


def test_a_run_is_known_by_its_directory_or_by_the_name_it_is_given(tmp_path):
    odd = tmp_path / "lr=2e-4"
    odd.mkdir()
    named = named_runs([f"{tmp_path}/a", f"b={tmp_path}/x=y", str(odd)])
    assert named == {"a": f"{tmp_path}/a", "b": f"{tmp_path}/x=y", "lr=2e-4": str(odd)}


def test_two_of_one_name_are_refused():
    with pytest.raises(UsageError, match="two models are called 'a'"):
        named_runs(["x/a", "y/a"])
    assert set(named_runs(["x/a", "b=y/a"])) == {"a", "b"}


def test_keys_come_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("TONETUNE_API_KEYS", raising=False)
    assert read_keys(None) == []
    monkeypatch.setenv("TONETUNE_API_KEYS", "one two")
    assert read_keys(None) == ["one", "two"]
    file = tmp_path / "keys"
    file.write_text("three\n\n  four \r\n")
    assert read_keys(file) == ["three", "four"]


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe"])
def test_a_file_without_keys_never_means_no_keys(tmp_path, content):
    file = tmp_path / "keys"
    file.write_bytes(content)
    with pytest.raises(DataError):
        read_keys(file)
    with pytest.raises(DataError, match="cannot be read"):
        read_keys(tmp_path / "absent")


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match="cannot listen") as refused:
            bound("127.0.0.1", port)
    assert refused.value.where == f"127.0.0.1:{port}"
    with bound("127.0.0.1", 0) as free:
        assert free.getsockname()[1] > 0


def test_connections_send_at_once():
    with bound("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_torch_remembers_few_kernels_unless_the_user_says_how_many(monkeypatch):
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "500")
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    limit_caches()
    assert os.environ["LRU_CACHE_CAPACITY"] == "500"
    assert os.environ.pop("ONEDNN_PRIMITIVE_CACHE_CAPACITY") == "64"


def test_a_host_that_is_none_is_refused():
    with pytest.raises(UsageError, match="cannot listen"):
        bound("999.999.999.999", 0)


def test_without_the_extra_the_command_to_install_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtraError) as refused:
        require_extra()
    assert "tonetune[serve]" in str(refused.value)
