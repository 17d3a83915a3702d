"""What all tests share: no hub, tiny models and texts, and the real data sets where they are at hand."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:  # one thread for each of the workers, before anything loads torch
    os.environ["OMP_NUM_THREADS"] = "1"

from collections.abc import Callable, Generator
from pathlib import Path

import pytest
import tiny
from tokenizers import Tokenizer

SHARED = Path(__file__).parents[1] / ".." / "shared"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With REQUIRE_SHARED set, a test that is skipped for want of ../shared has failed."""
    report = yield
    if report.skipped and "../shared" in str(report.longrepr) and os.environ.get("REQUIRE_SHARED"):
        report.outcome = "failed"
        report.longrepr = "../shared is absent, and REQUIRE_SHARED is set"
    return report


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def shared_data() -> Path:
    """The directory of real data sets; skips the test where it is absent."""
    if not (SHARED / "data").is_dir():
        pytest.skip("../shared is absent")
    return SHARED / "data"


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Tokenizer:
    """The tokenizer of the tiny models: <pad> 0, <eos> 1, <bos> 2, <unk> 3; adds BOS by itself."""
    return tiny.tokenizer()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Directory of a random two-layer model by family name, made once; never write into it."""
    root = tmp_path_factory.mktemp("models")

    def of(family: str) -> Path:
        directory = root / family
        return directory if directory.is_dir() else tiny.write_model(directory, family)

    return of


@pytest.fixture(scope="session")
def tiny_gemma(tiny_model: Callable[[str], Path]) -> Path:
    """Directory of a random two-layer Gemma 3, one layer sliding and one full; never write into it."""
    return tiny_model("gemma3_text")


@pytest.fixture(scope="session")
def emotion_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """200 rows of four emotions each: "en.csv", "en.jsonl", "zh.csv", "zh.jsonl", with the columns text and label."""
    root = tmp_path_factory.mktemp("emotions")
    names = [f"{language}.{kind}" for language in ("en", "zh") for kind in ("csv", "jsonl")]
    return {name: tiny.write_rows(root / name, tiny.emotion_rows(name[:2], 200)) for name in names}
