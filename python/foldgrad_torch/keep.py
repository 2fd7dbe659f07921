"""A forward pass's decisions must not be made again in the backward pass, from a state that has moved on. Activation
checkpointing would do that, and so would torch.compile."""
from typing import List

import torch
from torch import Tensor


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
