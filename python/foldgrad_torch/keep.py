"""Writes a normalizer's state. Also keeps activation checkpointing and torch.compile from recomputing a forward pass's
decisions from a later state."""
from typing import List

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack


def refuse_repetition() -> None:
    # A forward pass that runs within a backward pass is a repeated one; torch.utils.checkpoint uses the same test.
    if torch._C._current_graph_task_id() != -1:
        raise RuntimeError("UN, MABN, PNStar: activation checkpointing repeats this forward pass, which would then "
                           "count twice in the statistics. Keep the normalizer outside of the checkpoint, as in "
                           "x + checkpoint(attention, norm(x), use_reentrant=False)")


# Without this operation, a compiled backward pass uses t + 1 for iteration t (PyTorch 2.15), since it recomputes t from
# the counter. The compiler saves the results of operations that it does not know, unless it is told to checkpoint.
@torch.library.custom_op("foldgrad_torch::keep", mutates_args=())
def keep(values: List[Tensor]) -> List[Tensor]:
    """Copies the values for a compiled backward pass."""
    refuse_repetition()
    return [value.clone() for value in values]


@keep.register_fake
def _(values):
    return [torch.empty_like(value) for value in values]


def store(buffer: Tensor, value: Tensor) -> None:
    """Copies the value into the buffer, even under torch.func.grad, where PyTorch only allows writes to grad's
    arguments."""
    if torch.compiler.is_compiling() or is_functorch_wrapped_tensor(buffer) or not is_functorch_wrapped_tensor(value):
        buffer.copy_(value)
        return
    while is_functorch_wrapped_tensor(value):
        if is_batchedtensor(value):
            raise RuntimeError("UN, MABN, PNStar: torch.vmap would compute separate statistics for each example; call "
                               "eval() first, or map over the buffers too")
        value = get_unwrapped(value)
    with temporarily_clear_interpreter_stack():
        buffer.copy_(value)
