"""Copies of modules after a training pass."""
from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Detaching(TorchFunctionMode):
    """Copies tensors that have a history, which PyTorch refuses. The last pass leaves them in a module that computes
    its weight (nn.utils.weight_norm, pruning) or keeps activations, in an attribute, a list or another object."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        tensor = arguments[0] if arguments else None
        if function is not Tensor.__deepcopy__ or not tensor.requires_grad:
            return function(*arguments, **(options or {}))
        memo, new = arguments[1], tensor.detach().clone().requires_grad_(tensor.is_leaf)
        return memo.setdefault(id(tensor), new)


def detached_copy(module: nn.Module, shared: tuple[Tensor, ...] = ()) -> nn.Module:
    """Returns a deep copy of the module without histories. Both have the tensors in `shared` in common."""
    with Detaching():
        return copy.deepcopy(module, {id(tensor): tensor for tensor in shared})
