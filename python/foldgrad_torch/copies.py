"""Copies modules, including those that hold results of a training pass."""
from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Detaching(TorchFunctionMode):
    """Makes copy.deepcopy() copy tensors with a gradient history, which PyTorch refuses to copy. A training pass leaves
    such tensors in modules that compute their weight (nn.utils.weight_norm, pruning) or keep activations."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        tensor = arguments[0] if arguments else None
        if function is not Tensor.__deepcopy__ or not tensor.requires_grad:
            return function(*arguments, **(options or {}))
        memo, new = arguments[1], tensor.detach().clone().requires_grad_(tensor.is_leaf)
        return memo.setdefault(id(tensor), new)


def detached_copy(module: nn.Module, shared: tuple[Tensor, ...] = ()) -> nn.Module:
    """Returns a deep copy of the module whose tensors have no gradient history. The copy shares the tensors in `shared`
    with the module."""
    with Detaching():
        return copy.deepcopy(module, {id(tensor): tensor for tensor in shared})
