"""P8 passes a right sum over two processes and catches one that leaves a process out."""

import planted
import pytest

from tonetune.device.probes.collective import probe_collective, sum_over_all


@pytest.mark.slow
@pytest.mark.parametrize(("reduce", "error"), [(sum_over_all, 0.0), (planted.sum_of_one, 2.0)])
def test_two_processes_sum(reduce, error):
    found = probe_collective("cpu", thorough=False, reduce=reduce)
    assert (found.passed, found.value) == (error == 0.0, error)
    assert found.detail == "2 processes over gloo"
