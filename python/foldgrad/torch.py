"""foldgrad's normalizers as PyTorch modules that run on the CPU.

    import torch
    from foldgrad.torch import Norm

    block = torch.nn.Sequential(torch.nn.Linear(64, 64), Norm("un", 64, warmup=100), torch.nn.ReLU())
"""
import typing

try:
    import torch
    from torch.utils.dlpack import from_dlpack
except ImportError as error:
    raise ImportError("foldgrad.torch needs PyTorch: pip install foldgrad[torch]") from error

from foldgrad import _core

_NAMES = {torch.float32: "f32", torch.float64: "f64"}


class Norm(torch.nn.Module):
    """Any normalizer that foldgrad.normalizers() lists, over the last axis: Norm("un", 64, warmup=100)(x) accepts
    x [..., 64].

    x is float32, float64 or bfloat16 on the CPU. Parameters and buffers share their memory with the normalizer, so
    PyTorch's optimizers update it and state_dict() contains its state. The member `norm` is the foldgrad.Normalizer,
    with methods such as affine() and diagnostics(). `dtype` is float32 or float64. Neither the dtype nor the device can
    be changed later. The constructor raises ValueError for an unknown name or option.
    """

    norm: _core.Normalizer

    def __init__(self, name: str, channels: int, dtype: torch.dtype = torch.float32, **options: object) -> None:
        super().__init__()
        if dtype not in _NAMES:
            raise TypeError(f"Norm: dtype must be float32 or float64, got {dtype}")
        self._arguments = (name, channels, dtype, options)
        self.norm = _core.Normalizer(name, channels, _NAMES[dtype], "norm", **options)
        self._shared = list(self.norm.parameters)
        for p in self._shared:
            self.register_parameter(p.name.removeprefix("norm.").replace(".", "_"), torch.nn.Parameter(_view(p.value)))
        for key, buffer in self.norm.state.items():
            self.register_buffer(key, _view(buffer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns y with x's shape and dtype. In training mode, also updates the state."""
        return typing.cast(torch.Tensor, _Apply.apply(x, self, *self.parameters()))

    def extra_repr(self) -> str:
        """Returns the name, channels and options for print()."""
        name, channels, _, options = self._arguments
        return ", ".join([repr(name), str(channels), *(f"{key}={value}" for key, value in options.items())])

    def _apply(self, fn: typing.Any, recurse: bool = True) -> "Norm":
        for tensor in [*self.parameters(), *self.buffers()]:
            moved = fn(tensor.detach())
            if moved.dtype != tensor.dtype or moved.device != tensor.device:
                raise TypeError("Norm: neither device nor dtype can be changed; make another Norm(..., dtype=...)")
        return self

    def __deepcopy__(self, memo: typing.Any) -> "Norm":
        name, channels, dtype, options = self._arguments
        other = Norm(name, channels, dtype, **options)
        other.load_state_dict(self.state_dict())
        return other.train(self.training)


def _view(tensor: _core.Tensor) -> torch.Tensor:
    return from_dlpack(tensor)


class _Apply(torch.autograd.Function):
    @staticmethod
    def forward(context: typing.Any, x: torch.Tensor, module: Norm, *parameters: torch.Tensor) -> torch.Tensor:
        given = x.detach().contiguous()
        tape = _core.Tape(recording=any(context.needs_input_grad))
        variable = tape.variable(_core.from_dlpack(given))
        y = module.norm.apply(variable, module.training)
        context.save_for_backward(x, *parameters)  # lets PyTorch detect changes before the backward pass
        context.recorded = tape, variable, y, module._shared
        result = _view(y.value)
        return result.clone() if result.data_ptr() == given.data_ptr() else result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: typing.Any, dy: torch.Tensor) -> typing.Any:
        context.saved_tensors
        tape, variable, y, parameters = context.recorded
        for p in parameters:
            p.zero_grad()
        tape.backward(y, _core.from_dlpack(dy.contiguous()))
        gradients = [None if p.grad is None else _view(p.grad).clone() for p in parameters]
        dx = tape.grad(variable)
        return None if dx is None else _view(dx), None, *gradients
