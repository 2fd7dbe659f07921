"""Writes of a normalizer's state. A forward pass's decisions must not be made again in the backward pass, from a state
that has moved on. Activation checkpointing would do that, and so would torch.compile."""
from typing import List

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack


def refuse_repetition() -> None:
    # Asked as torch.utils.checkpoint itself asks: within a backward pass, a forward pass is one that is repeated.
    if torch._C._current_graph_task_id() != -1:
        raise RuntimeError("UN, MABN, PNStar: activation checkpointing repeats this forward pass, which would then "
                           "count twice in the statistics. Keep the normalizer outside of the checkpoint, as in "
                           "x + checkpoint(attention, norm(x), use_reentrant=False)")


# Without it a compiled backward pass takes iteration t for t + 1 (PyTorch 2.15), since it computes t from the counter.
# The results of an operation that the compiler does not know are saved, unless it is told to checkpoint.
@torch.library.custom_op("foldgrad_torch::keep", mutates_args=())
def keep(values: List[Tensor]) -> List[Tensor]:
    """Copies the values for a compiled backward pass."""
    refuse_repetition()
    return [value.clone() for value in values]


@keep.register_fake
def _(values):
    return [torch.empty_like(value) for value in values]


def store(buffer: Tensor, value: Tensor) -> None:
    """Writes the value into the buffer. Under torch.func.grad PyTorch itself writes only into what grad was given."""
    if torch.compiler.is_compiling() or is_functorch_wrapped_tensor(buffer) or not is_functorch_wrapped_tensor(value):
        buffer.copy_(value)
        return
    while is_functorch_wrapped_tensor(value):
        if is_batchedtensor(value):
            raise RuntimeError("UN, MABN, PNStar: torch.vmap would give a normalizer statistics for each example: call "
                               "eval() first, or map over the buffers too")
        value = get_unwrapped(value)
    with temporarily_clear_interpreter_stack():
        buffer.copy_(value)
