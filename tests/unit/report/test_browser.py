"""The report in a real browser: no error on its console, every figure drawn, filters that filter, room on a phone."""

import json
import re
import shutil
import subprocess

import pytest

pytest.importorskip("matplotlib", reason="needs the extra report")

from tonetune.report.html import write_report
from tonetune.rundir import read_jsonl

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PROBE = """<script>
const shown = () => [...document.querySelectorAll(".browser li")].filter(row => row.offsetParent).length;
const choose = (field, value) => { document.getElementById(field).value = value; };
document.body.style.width = "420px";
const found = {
  all: shown(),
  figures: [...document.querySelectorAll("figure svg")].map(svg => svg.getBoundingClientRect().height),
  width: document.body.scrollWidth,
  by_true: {}, by_taken: {}, by_cue: {},
};
for (const [field, name] of [["true", "by_true"], ["taken", "by_taken"], ["cue", "by_cue"]]) {
  for (const option of document.getElementById(field).options) {
    choose(field, option.value);
    found[name][option.text] = shown();
  }
  choose(field, "any");
}
document.body.innerHTML = "<pre id=found>" + JSON.stringify(found).replace(/</g, "&lt;") + "</pre>";
</script>"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_page_works_in_a_browser(run, tmp_path):
    source = write_report(run).path.read_text(encoding="utf-8")
    policy = re.search(r"<meta http-equiv[^>]*>", source)[0]
    page = tmp_path / "probed.html"
    page.write_text(source.replace(policy, "").replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=420,2000", "--enable-logging=stderr"]
    command = [CHROMIUM, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=True)
    assert "CONSOLE" not in result.stderr
    dumped = re.search(r"<pre id=\"found\">(.*?)</pre>", result.stdout, flags=re.DOTALL)[1]
    found = json.loads(dumped.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    wrong = [r for r in read_jsonl(run.evaluation("test") / "predictions.jsonl") if r["label"] != r["gold"]]
    assert found["all"] == len(wrong) > 20
    assert len(found["figures"]) == 7 and min(found["figures"]) > 50
    assert found["width"] <= 420
    for name in ("by_true", "by_taken", "by_cue"):
        counts = found[name]
        assert counts.pop("any") == len(wrong) and counts
        assert all(text.endswith(f"({count})") for text, count in counts.items())
    assert sum(found["by_true"].values()) == sum(found["by_taken"].values()) == len(wrong)
