"""Learning-rate schedules, counted in optimiser steps."""

import math


def learning_rate_factor(step: int, *, total_steps: int, warmup_steps: int, schedule: str) -> float:
    """Factor on the peak learning rate for optimiser step `step`, counted from 1.

    Linear rise over `warmup_steps` (full at the last of them), then "constant", "linear" to 0, or "cosine" to 0,
    reached just after the last step.
    """
    if step <= warmup_steps:
        return step / warmup_steps
    if schedule == "constant":
        return 1.0
    done = (step - 1 - warmup_steps) / (total_steps - warmup_steps)
    return 1.0 - done if schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
