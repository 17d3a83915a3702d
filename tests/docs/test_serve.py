"""docs/serve.md, the container files and the service agree."""

import re
from dataclasses import asdict
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tonetune.serve.limits import Limits

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_table_of_limits_is_the_codes():
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", PAGE, flags=re.MULTILINE)
    assert {name: int(value) for name, value in rows} == asdict(Limits())


def test_every_route_is_in_the_table():
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from tonetune.serve.routes import router

    paths = {route.path for route in router.routes}
    assert len(paths) > 8
    assert all(f"`{path}`" in PAGE or f" {path}`" in PAGE or f"`{path} " in PAGE for path in paths)


def test_every_status_is_in_the_table_of_errors():
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from tonetune.serve.problems import KINDS

    unsaid = {405, 499, 500}  # a wrong method, nobody to tell, a bug
    assert {int(code) for code in re.findall(r"^\| (\d{3}) \|", PAGE, flags=re.MULTILINE)} == set(KINDS) - unsaid


def test_the_image_runs_without_rights_and_checks_itself():
    instructions = re.findall(r"^([A-Z]+) ", DOCKERFILE, flags=re.MULTILINE)
    assert instructions[:2] == ["ARG", "FROM"]
    assert {"USER", "HEALTHCHECK", "ENTRYPOINT"} <= set(instructions)
    assert instructions.index("USER") > len(instructions) - 1 - instructions[::-1].index("RUN")
    copied = [name for line in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, flags=re.MULTILINE) for name in line.split()]
    assert copied and all((ROOT / name).exists() for name in copied)
    kept = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert set(copied) <= kept


def test_yaml_in_the_pages_is_yaml():
    compose = YAML(typ="safe").load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    assert compose["services"]["tonetune"]["read_only"] is True
    (probes,) = re.findall(r"```yaml\n(.+?)```", PAGE, flags=re.DOTALL)
    (container,) = YAML(typ="safe").load(probes)["containers"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
