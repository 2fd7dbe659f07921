"""Compares gradients with central differences."""
import typing

from foldgrad import _core


def check_gradients(f: typing.Callable[..., _core.Var], *arrays: typing.Any, step: float = 1e-5) -> list[float]:
    """Compares the gradients of f with central differences, in f64.

    f takes one floating-point Var for each array and returns a Var of any shape. We differentiate sum(w * f) with fixed
    random weights w, since errors can cancel in a plain sum. Returns one number for each array: the largest difference
    between gradient and central differences, divided by 1 + the largest absolute value of the central differences.
    """
    import numpy as np
    values = [np.array(array, np.float64) for array in arrays]
    weights: list[typing.Any] = []

    def loss(tape: _core.Tape, values: list[typing.Any]) -> tuple[_core.Var, list[_core.Var]]:
        inputs = [tape.variable(value) for value in values]
        y = f(*inputs)
        if not weights:
            weights.append(np.random.default_rng(1).uniform(0.5, 1.5, y.shape))
        return _core.ops.sum(_core.ops.mul(y, tape.constant(weights[0]))), inputs

    tape = _core.Tape()
    y, inputs = loss(tape, values)
    tape.backward(y)
    differences = []
    for k, value in enumerate(values):
        gradient = tape.grad(inputs[k])
        got = np.zeros(value.shape) if gradient is None else gradient.numpy()
        want = np.empty(value.shape)
        for i in np.ndindex(*value.shape):
            sides = []
            for sign in (1, -1):
                moved = value.copy()
                moved[i] += sign * step
                y, _ = loss(_core.Tape(False), [*values[:k], moved, *values[k + 1:]])
                sides.append(y.value.item())
            want[i] = (sides[0] - sides[1]) / (2 * step)
        differences.append(float(np.abs(got - want).max(initial=0) / (1 + np.abs(want).max(initial=0))))
    return differences
