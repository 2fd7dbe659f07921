"""Chapter 4: a training loop for two spirals. Read ch04_training.md first."""
import foldgrad as fg
import numpy as np


def spirals(n=100):
    """Returns points [2n, 2] on two spirals, and the number of each point's spiral, 0 or 1."""
    angle = np.linspace(0.3, 3 * np.pi, n)
    arm = np.stack([np.cos(angle), np.sin(angle)], 1) * angle[:, None] / (3 * np.pi)
    return np.concatenate([arm, -arm]).astype(np.float32), np.repeat([0, 1], n)


def parameters(seed=1):
    """Returns the weights and biases of two linear layers, 2 -> 64 -> 2, by name."""
    return {"w1": fg.uniform("w1", [64, 2], 4.0, seed), "b1": fg.uniform("b1", [64], 4.0, seed),
            "w2": fg.uniform("w2", [2, 64], 0.1, seed), "b2": fg.uniform("b2", [2], 0.1, seed)}


# Exercise 4.1
def logits(tape, x, p):
    """Applies linear, tanh and linear to the array x [rows, 2]. Returns the logits, a Var [rows, 2]."""
    hidden = fg.ops.tanh(fg.ops.linear(tape.constant(x), tape.parameter(p["w1"]), tape.parameter(p["b1"])))
    return fg.ops.linear(hidden, tape.parameter(p["w2"]), tape.parameter(p["b2"]))


# Exercise 4.2
def train(p, x, target, steps, lr):
    """Trains p with AdamW on the mean cross-entropy over all rows. Returns the loss before each update."""
    optimizer, losses = fg.AdamW(list(p.values())), []
    for _ in range(steps):
        optimizer.zero_grad()
        tape = fg.Tape()
        loss = fg.ops.cross_entropy(logits(tape, x, p), tape.constant(target))
        tape.backward(loss)
        optimizer.step(lr)
        losses.append(loss.value.item())
    return losses


# Exercise 4.3
def accuracy(p, x, target):
    """Returns the fraction of rows whose largest logit belongs to the target. Records no operations."""
    of_rows = logits(fg.Tape(False), x, p).value.numpy()
    return float(np.mean(of_rows.argmax(axis=1) == target))
