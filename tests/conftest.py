"""What all tests share: no hub, and the real data sets where they are at hand."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[1] / ".." / "shared"


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def shared_data() -> Path:
    """The directory of real data sets; skips the test where it is absent."""
    if not (SHARED / "data").is_dir():
        pytest.skip("../shared is absent")
    return SHARED / "data"
