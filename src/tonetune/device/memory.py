"""Memory that runs out, on card or host, as an error with a way out."""

import contextlib
from collections.abc import Iterator

import torch

from tonetune.errors import DeviceError, TrainingError

HOST_FULL = "can't allocate memory"  # what torch's allocator says on a CPU, in a bare RuntimeError

WHEN_TRAINING = "lower train.micro_batch_tokens or data.max_length, or set train.checkpointing: true"
WHEN_SCORING = "free memory: other programs use it, or the machine is too small for this base"


@contextlib.contextmanager
def memory_errors(step: str, *, hint: str = WHEN_TRAINING) -> Iterator[None]:
    """Raises TrainingError where memory runs out inside, DeviceError where the GPU fails; `step` says in what."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise TrainingError(f"the GPU is out of memory: {str(error).splitlines()[0]}", where=step, hint=hint) from error
    except torch.AcceleratorError as error:
        raise DeviceError(f"the GPU failed: {str(error).splitlines()[0]}", where=step, hint="start again") from error
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and HOST_FULL not in str(error):
            raise
        raise TrainingError("the machine is out of memory", where=step, hint=hint) from error
