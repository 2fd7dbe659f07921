"""The Python interface to foldgrad: its tape, operations, normalizers and models, and training as in `foldgrad train`.

    import foldgrad as fg, numpy as np

    tape = fg.Tape()
    w = fg.uniform("w", [2, 3], bound=1, seed=1)
    y = fg.ops.relu(fg.ops.linear(tape.constant(np.ones((4, 3), np.float32)), tape.parameter(w)))
    tape.backward(fg.ops.mean(y))
    w.grad.numpy()

Arrays are NumPy arrays. Operations do not broadcast.
"""
from foldgrad import _cpu, _level

_cpu.require_level(_level.LEVEL)

from foldgrad._core import (  # noqa: E402: the CPU check comes first
    SGD, Adam, AdamW, CheckpointError, ConfigError, Diverged, FileError, Folded, Function, MissingFile, Model,
    NonFiniteError, Normalizer, Optimizer, Parameter, Site, Tape, Tensor, Var, __version__, clip_by_norm, from_dlpack,
    load, memory_in_use, normal, normalizers, ops, read_safetensors, register_normalizer, replay_trace, set_threads, threads, uniform,
    write_safetensors)
from foldgrad._gradients import check_gradients  # noqa: E402
from foldgrad._training import Run, train  # noqa: E402

__all__ = [
    "SGD", "Adam", "AdamW", "CheckpointError", "ConfigError", "Diverged", "FileError", "Folded", "Function",
    "MissingFile", "Model", "NonFiniteError", "Normalizer", "Optimizer", "Parameter", "Run", "Site", "Tape", "Tensor",
    "Var", "__version__", "check_gradients", "clip_by_norm", "from_dlpack", "load", "memory_in_use", "normal", "normalizers", "ops",
    "read_safetensors", "register_normalizer", "replay_trace", "set_threads", "threads", "train", "uniform",
    "write_safetensors"]
