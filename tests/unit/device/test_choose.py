"""Choices about the device: each comes with a reason, and what the user sets wins."""

import json
from types import SimpleNamespace

import pytest
import torch

from tonetune.device import choose
from tonetune.device.advice import rules
from tonetune.device.probes import ProbeResult
from tonetune.errors import DeviceError

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def probe(name: str, status: str, **facts: float) -> ProbeResult:
    return ProbeResult(name, "title", status, None, None, None, "what it said", 0.1, facts)


@pytest.mark.parametrize(("ratio", "dtype"), [(0.3, torch.float32), (1.4, torch.float32), (1.6, torch.bfloat16)])
def test_a_processor_computes_in_bfloat16_only_where_that_was_measured_faster(monkeypatch, ratio, dtype):
    monkeypatch.setattr(choose, "_bfloat16_speedup", lambda: ratio)
    found = choose.choose_dtype("auto", CPU, {})
    assert found.value == dtype
    assert f"{ratio:.1f}" in found.reason


def test_the_speed_of_bfloat16_is_really_measured():
    assert 0.01 < choose._bfloat16_speedup() < 100


@pytest.mark.parametrize(
    ("hip", "native", "dtype"),
    [(None, True, torch.bfloat16), (None, False, torch.float32), ("6.4", False, torch.bfloat16)],
)
def test_a_gpu_computes_in_bfloat16_where_it_has_the_units(monkeypatch, hip, native, dtype):
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(gcnArchName="gfx90a:xnack-")
    )
    assert choose.choose_dtype("auto", GPU, {}).value == dtype


def test_an_amd_card_computes_in_float32_where_the_doctor_says_so(monkeypatch):
    """torch says of every AMD card that it has bfloat16."""
    (rule,) = [rule for rule in rules() if rule.id == "no-bfloat16-units"]
    assert rule.when == {"amd.archs": {"any_of": list(choose.WITHOUT_BFLOAT16)}}
    monkeypatch.setattr(torch.version, "hip", "6.4")
    for arch in choose.WITHOUT_BFLOAT16:
        properties = SimpleNamespace(gcnArchName=f"{arch}:xnack-")
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device, found=properties: found)
        found = choose.choose_dtype("auto", GPU, {})
        assert found.value == torch.float32 and arch in found.reason


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("device", [CPU, GPU])
def test_what_the_user_sets_is_taken(name, device):
    wrong = {"P1": probe("P1", "failed", bfloat16_used=9.0), "P4": probe("P4", "crashed")}
    found = choose.choose_dtype(name, device, wrong)
    assert (found.value, found.reason) == (getattr(torch, name), "set by model.dtype")
    for kernel in ("sdpa", "eager"):
        found = choose.choose_attention(kernel, ("sdpa", "eager"), "fast", torch.float32, wrong)
        assert found == choose.Choice(kernel, "set by model.attention")
    assert choose.choose_compile(True, {}) == choose.Choice(True, "set by train.compile")


@pytest.mark.parametrize(
    ("result", "dtype"),
    [
        (("P1", "passed", {"bfloat16_used": 0.3}), torch.bfloat16),
        (("P1", "failed", {"bfloat16_used": 0.3, "float16_used": 7.0}), torch.bfloat16),
        (("P1", "failed", {"bfloat16_used": 7.0}), torch.float32),
        (("P3", "failed", {"bfloat16_finite": 0.0}), torch.float32),
        (("P3", "passed", {"bfloat16_finite": 1.0, "float16_finite": 0.0}), torch.bfloat16),
        (("P1", "timeout", {}), torch.bfloat16),
        (("P4", "failed", {"bfloat16_used": 7.0}), torch.bfloat16),
    ],
)
def test_a_format_that_failed_its_probe_is_not_taken(monkeypatch, result, dtype):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    name, status, facts = result
    found = choose.choose_dtype("auto", GPU, {name: probe(name, status, **facts)})
    assert found.value == dtype
    assert (f"probe {name} on this machine: what it said" in found.reason) == (dtype == torch.float32 or name == "P1")
    assert ("probe P1 has not run" in found.reason) == (dtype == torch.bfloat16 and name != "P1")


@pytest.mark.parametrize(
    ("status", "facts", "kernel"),
    [
        ("passed", {"bfloat16_used": 0.4, "float32_used": 0.1}, "sdpa"),
        ("failed", {"bfloat16_used": 5.0, "float32_used": 0.1}, "eager"),
        ("failed", {"bfloat16_used": 0.4, "float32_used": 5.0}, "sdpa"),
        ("crashed", {}, "eager"),
        ("timeout", {}, "eager"),
        ("skipped", {}, "sdpa"),
    ],
)
def test_fused_attention_that_failed_its_probe_is_not_taken(status, facts, kernel):
    found = choose.choose_attention(
        "auto", ("sdpa", "eager"), "fast", torch.bfloat16, {"P4": probe("P4", status, **facts)}
    )
    assert found.value == kernel and "what it said" in found.reason


def test_without_probes_the_family_decides():
    choice = choose.choose_attention("auto", ("sdpa", "eager"), "fast", torch.float32, {})
    assert choice == choose.Choice("sdpa", "fast; probe P4 has not run on this machine")
    only = choose.choose_attention("auto", ("eager",), "exact", torch.float32, {"P4": probe("P4", "failed")})
    assert only == choose.Choice("eager", "exact")


def test_layers_are_not_compiled_and_what_the_probe_found_is_told():
    assert "has not run" in choose.choose_compile("auto", {}).reason
    found = choose.choose_compile("auto", {"P6": probe("P6", "passed")})
    assert not found.value and "probe P6 on this machine: what it said" in found.reason


def test_no_memory_is_pinned():
    assert choose.choose_pinned_memory({}).value is False
    assert "what it said" in choose.choose_pinned_memory({"P5": probe("P5", "passed")}).reason


@pytest.mark.parametrize("version", ["2.12.1+cu130", "2.13.0+cu130", "2.13.1", "2.14.0"])
def test_cudnn_attention_is_off_where_the_doctor_says_so(monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(torch.version, "hip", None)
    (rule,) = [rule for rule in rules() if rule.id == "cudnn-attention"]
    warned = rule.applies({"torch.backend": "cuda", "torch.version": version, "cards.seen": 1})
    assert choose.choose_cudnn_attention(GPU).value is not warned
    monkeypatch.setattr(torch.version, "hip", "7.2")
    assert [choose.choose_cudnn_attention(device).value for device in (GPU, CPU)] == [False, False]


def test_a_choice_can_be_written_as_json():
    for value, written in ((torch.bfloat16, "bfloat16"), (CPU, "cpu"), (512, 512), (None, None), (True, True)):
        document = json.loads(json.dumps(choose.Choice(value, "because").as_dict()))
        assert document == {"value": written, "reason": "because"}


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_a_number_format_has_the_name_that_the_config_gives_it(name):
    assert choose.dtype_name(getattr(torch, name)) == name


def test_without_a_gpu_the_processor_is_taken(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose.choose_device().value == CPU


def broken_gpu(monkeypatch: pytest.MonkeyPatch, ones: object) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Card")
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["gfx90a"])
    monkeypatch.setattr(torch, "ones", ones)


def test_a_gpu_whose_kernel_fails_is_an_error_that_names_the_build(monkeypatch):
    def ones(*size: int, device: torch.device) -> torch.Tensor:
        raise RuntimeError("HIP error: invalid device function\nmore")

    broken_gpu(monkeypatch, ones)
    with pytest.raises(DeviceError, match="first kernel failed: HIP error: invalid device function") as caught:
        choose.choose_device()
    assert "more" not in caught.value.what
    assert caught.value.where == "cuda:0"
    assert "gfx90a" in str(caught.value.hint)


def test_a_gpu_that_computes_wrongly_is_an_error(monkeypatch):
    broken_gpu(monkeypatch, lambda *size, device: torch.full(size, 0.5))
    with pytest.raises(DeviceError, match=r"sums 64 ones to 32\.0"):
        choose.choose_device()


def test_peak_memory_is_that_of_this_process():
    before = choose.peak_memory_mib(CPU)
    block = torch.ones(64 << 18)  # 64 MiB
    assert 10 < before <= choose.peak_memory_mib(CPU)
    assert choose.peak_memory_mib(CPU) < before + 200
    assert block.sum() == 64 << 18


def test_a_measurement_of_peak_memory_on_a_cpu_is_lessened_by_what_is_resident():
    before = choose.reset_peak_memory(CPU)
    block = torch.ones(64 << 18)  # 64 MiB
    assert 10 < before < choose.peak_memory_mib(CPU) + 1
    assert choose.reset_peak_memory(CPU) == pytest.approx(before + 64, abs=16)
    assert block.sum() == 64 << 18


def test_a_measurement_of_peak_memory_on_a_gpu_starts_anew(monkeypatch):
    peaks = {GPU: 900 << 20}
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: peaks.update({device: 3 << 20}))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", peaks.__getitem__)
    before = choose.reset_peak_memory(GPU)
    peaks[GPU] = 70 << 20  # a second run in this process takes less than the first
    assert choose.peak_memory_mib(GPU) - before == 70
