"""Chapter 9: precision, the order of sums, and bit-identical resuming. Read ch09_bits.md first."""
import foldgrad as fg
import numpy as np


# Exercise 9.1
def sum_of_parts(arrivals):
    """Returns the sum of the parts as np.float32. It has the same bits for every order of arrival.

    `arrivals` lists pairs (number of a thread, its np.float32 part) in the order in which the threads finish."""
    total = np.float32(0)
    for _, part in sorted(arrivals):
        total += part
    return total


# Exercise 9.2
def compensated_sum(values):
    """Returns the sum of an iterator of np.float32 numbers as np.float32, with an error of at most a few last bits.
    Keeps only two np.float32 numbers of state."""
    total = lost = np.float32(0)
    for value in values:
        value = value - lost
        new = total + value
        lost = (new - total) - value
        total = new
    return total


# Exercise 9.3
def to_bf16(x):
    """Returns the float32 array x, rounded to the nearest bf16 numbers. A tie goes to the even number.

    A bf16 number is the upper half of a float32. The result is a float32 array; every NaN becomes 0x7fff0000
    [CAST-1]."""
    bits = x.view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1) & 0xFFFF0000
    return np.where(np.isnan(x), 0x7FFF0000, rounded).astype(np.uint32).view(np.float32)


class Training:
    """Trains a small network with UN to multiply two numbers. The step number determines the data."""

    def __init__(self):
        self.step = 0
        self.norm = fg.Normalizer("un", 8, window=2, warmup=3)
        self.parameters = [fg.uniform("w", [8, 2], 1.0, seed=1), fg.uniform("v", [1, 8], 0.5, seed=2),
                           *self.norm.parameters]
        self.optimizer = fg.AdamW(self.parameters)

    def update(self):
        """Makes one update and returns its loss."""
        x = np.random.default_rng(self.step).normal(size=(16, 2)).astype(np.float32)
        self.optimizer.zero_grad()
        tape, w = fg.Tape(), self.parameters
        hidden = self.norm.apply(fg.ops.linear(tape.constant(x), tape.parameter(w[0])), training=True)
        off = fg.ops.linear(fg.ops.tanh(hidden), tape.parameter(w[1])) - tape.constant(x[:, :1] * x[:, 1:])
        loss = fg.ops.mean(off * off)
        tape.backward(loss)
        self.optimizer.step(0.01)
        self.step += 1
        return loss.value.item()


# Exercise 9.4
def save(training):
    """Returns everything on which the next updates of a Training depend. Later updates must not change the result."""
    return {"step": training.step, "parameters": [p.value.numpy().copy() for p in training.parameters],
            "norm": training.norm.snapshot(), "optimizer": training.optimizer.state()}


# Exercise 9.4
def resume(saved):
    """Returns a new Training whose updates are bit-identical to those of the Training that was saved."""
    training = Training()
    training.step = saved["step"]
    for p, value in zip(training.parameters, saved["parameters"]):
        p.value = value
    training.norm.restore(saved["norm"])
    training.optimizer.load_state(saved["optimizer"])
    return training
