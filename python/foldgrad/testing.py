"""Tests normalizers with state by comparing them with an oracle.

    class Machine(fg.testing.machine(lambda: fg.Normalizer("un", 3, dtype="f64", warmup=2), Oracle)): pass
    TestUn = Machine.TestCase

Hypothesis generates sequences of steps and shows the shortest one in which the normalizer and the oracle differ.
"""
import copy
import typing

try:
    import numpy as np
    from hypothesis import strategies
    from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
except ImportError as error:
    raise ImportError("foldgrad.testing needs Hypothesis: pip install foldgrad[test]") from error

from foldgrad import _core

Array = typing.Any


class Oracle(typing.Protocol):
    """A normalizer in NumPy. If it has a member `state`, {name: array}, these arrays are also compared with the buffers
    of the same names in the normalizer's state. Snapshots are made with copy.deepcopy(). A function that forward()
    returned would still refer to the original oracle, so backward() is a method instead."""

    def forward(self, x: Array) -> tuple[Array, typing.Any]:
        """Runs a training pass over x [rows, channels]. Returns y and the values that backward() needs."""

    def backward(self, saved: typing.Any, dy: Array) -> Array:
        """Returns dx and updates the state that a backward pass updates."""


def histories(channels: int, most_rows: int = 4, most_steps: int = 20) -> typing.Any:
    """Returns a strategy for lists of f64 arrays [rows, channels], the inputs of consecutive steps. Some arrays have
    values that are much larger or smaller than those of the others."""
    return strategies.lists(_inputs(channels, most_rows), min_size=1, max_size=most_steps)


def _inputs(channels: int, most_rows: int) -> typing.Any:
    def array(rows: int, seed: int, size: float) -> Array:
        return size * np.random.default_rng(seed).normal(size=(rows, channels))
    return strategies.builds(array, strategies.integers(1, most_rows), strategies.integers(0, 99),
                             strategies.sampled_from([1.0, 1.0, 0.1, 30.0]))


def machine(make: typing.Callable[[], _core.Normalizer], make_oracle: typing.Callable[[], Oracle],
            tolerance: float = 1e-9) -> type[RuleBasedStateMachine]:
    """Returns a state machine that compares an f64 normalizer with an oracle.

    Its rules run a forward pass, run the oldest pending backward pass, take a snapshot, and restore the snapshot, which
    drops the pending backward passes. Other forward passes may therefore run between a forward pass and its backward
    pass. Results and states must agree to within tolerance * (1 + the largest absolute value).
    """
    channels = make().channels

    def compare(what: str, got: _core.Tensor, want: Array) -> None:
        off = np.abs(got.numpy() - want).max(initial=0) / (1 + np.abs(want).max(initial=0))
        assert off <= tolerance, f"{what} differs by {off:.2e}: got {got.numpy()}, want {want}"

    class Machine(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.norm, self.oracle = make(), make_oracle()
            self.waiting: list[tuple[typing.Any, typing.Any, tuple[int, ...]]] = []
            self.saved: typing.Any = None

        @rule(x=_inputs(channels, 4))
        def forward(self, x: Array) -> None:
            (y, pullback), (want, saved) = self.norm.vjp(x), self.oracle.forward(x)
            compare("y", y, want)
            self.waiting.append((pullback, saved, x.shape))

        @precondition(lambda self: self.waiting)
        @rule(seed=strategies.integers(0, 99))
        def backward(self, seed: int) -> None:
            pullback, saved, shape = self.waiting.pop(0)
            dy = np.random.default_rng(seed).normal(size=shape)
            compare("dx", pullback(dy)[0], self.oracle.backward(saved, dy))

        @invariant()
        def state(self) -> None:
            for name, want in getattr(self.oracle, "state", {}).items():
                compare(name, self.norm.state[name], want)

        @precondition(lambda self: not self.waiting)
        @rule()
        def snapshot(self) -> None:
            self.saved = self.norm.snapshot(), copy.deepcopy(self.oracle)

        @precondition(lambda self: self.saved)
        @rule()
        def restore(self) -> None:
            self.norm.restore(self.saved[0])
            self.oracle = copy.deepcopy(self.saved[1])
            self.waiting = []

    return Machine
