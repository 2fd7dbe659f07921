"""Chapter 6: ten planted bugs. Each function below has one. For each, write a property that the bug violates.

property_K(f) takes one version of function K. It returns True if that version has the property, and False if it does
not. The check calls property_K with the right version and with the version below. Do not fix the bugs.
"""
import numpy as np


def tanh_1(x):
    """Returns y = tanh(x), and a function that maps dy to dx."""
    y = np.tanh(x)
    return y, lambda dy: dy * (1 - y)


def square_2(x, dy, grad):
    """Adds dx to the array grad, where y = x^2."""
    grad[...] = 2 * x * dy


def mean_loss_3(losses, counts):
    """Returns the mean of the losses [N] for which `counts`, bool [N], is True."""
    return np.sum(losses * counts) / len(losses)


def dropout_4(x, p, random):
    """Drops each element of x with probability p, and scales the others by 1 / (1 - p). Returns y, and a function that
    maps dy to dx.

    random is a numpy.random.Generator."""
    keep = random.random(x.shape) >= p
    return x * keep / (1 - p), lambda dy: dy * (random.random(x.shape) >= p) / (1 - p)


def mean_square_5(x, real):
    """Returns the mean square [C] over the real rows of x [N, C], where `real` [N] is True. Other rows are padding."""
    return np.mean(x * x, axis=0)


def infer_6(state, x):
    """Returns x / sqrt(state["run_var"]) and does not change the state, {"run_var": [C]}."""
    state["run_var"] *= 0.9
    state["run_var"] += 0.1 * np.mean(x * x, axis=0)
    return x / np.sqrt(state["run_var"])


def restore_7(state, saved):
    """Sets the arrays in the dict `state` to the values in the dict `saved`. Training changes `state` in place."""
    state.update(saved)


def attention_8(q, k, v):
    """Returns causal attention; all arrays are [T, C]. Row t is a weighted mean of rows 0 ... t of v."""
    scores = q @ k.T / np.sqrt(q.shape[1])
    scores = np.where(np.tri(len(q), k=1) > 0, scores, -np.inf)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True) @ v


def clip_9(gradients, limit):
    """Returns the arrays, all scaled by the same factor so that their joint norm is at most `limit`."""
    return [g * min(1, limit / np.sqrt(np.sum(g * g))) for g in gradients]


def fold_10(A, B, W, b):
    """Returns W' and b' with W' x + b' = W (A x + B) + b for every x."""
    return A[:, None] * W, b + W @ B


def draw(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape)


# Exercise 6.1
def property_1(f):
    x, step = draw(5), 1e-5
    slopes = (f(x + step)[0] - f(x - step)[0]) / (2 * step)
    return np.allclose(f(x)[1](np.ones(5)), slopes, atol=1e-8)


# Exercise 6.1
def property_2(f):
    grad = np.full(3, 10.0)
    f(np.array([1.0, 2.0, 3.0]), np.ones(3), grad)
    return np.allclose(grad, [12, 14, 16])


# Exercise 6.1
def property_3(f):
    losses, more = draw(4), draw(6)
    return np.isclose(f(np.append(losses, more), np.arange(10) < 4), f(losses, np.ones(4, bool)))


# Exercise 6.1
def property_4(f):
    y, backward = f(np.ones(100), 0.5, np.random.default_rng(1))
    return np.array_equal(backward(np.ones(100)), y)


# Exercise 6.2
def property_5(f):
    x, real = draw(6, 2), np.arange(6) < 4
    other = np.where(real[:, None], x, 100)
    return np.allclose(f(x, real), f(other, real))


# Exercise 6.2
def property_6(f):
    state = {"run_var": np.ones(2)}
    f(state, draw(4, 2))
    return np.array_equal(state["run_var"], np.ones(2))


# Exercise 6.2
def property_7(f):
    state, saved = {"w": np.zeros(3)}, {"w": np.ones(3)}
    f(state, saved)
    state["w"] += 5
    f(state, saved)
    return np.array_equal(state["w"], np.ones(3))


# Exercise 6.3
def property_8(f):
    q, k, v = draw(5, 2), draw(5, 2, seed=2), draw(5, 2, seed=3)
    y = f(q, k, v)
    k[-1], v[-1] = 7, 7
    return np.allclose(f(q, k, v)[:-1], y[:-1])


# Exercise 6.3
def property_9(f):
    a, b = f([np.array([3.0, 0.0]), np.array([40.0])], 1.0)
    return np.isclose(b[0] / a[0], 40 / 3)


# Exercise 6.3
def property_10(f):
    A, B, W, b, x = draw(3), draw(3, seed=2), draw(3, 3, seed=3), draw(3, seed=4), draw(3, seed=5)
    folded, bias = f(A, B, W, b)
    return np.allclose(folded @ x + bias, W @ (A * x + B) + b)
