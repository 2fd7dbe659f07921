"""Chapter 2: operations on arrays, and tests of their gradients. Read ch02_operations.md first."""
import numpy as np


# Exercise 2.1
def softplus(x):
    """Returns log(1 + e^x) for each element, correct up to rounding for every finite x."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


# Exercise 2.2
def softplus_backward(x, dy):
    """Returns dx = dL/dx, where dy = dL/dy and y = softplus(x)."""
    return dy / (1 + np.exp(-x))


# Exercise 2.3
def gradient_error(f, backward, x):
    """Returns the largest difference between the dx of `backward` and the difference quotients of a loss L.

    x and y = f(x) are arrays of any shape; backward(x, dy) returns dx. L is a number computed from y. Choose an L for
    which every wrong backward pass gives a large result. For a right backward pass, the result must be below 1e-7 if f
    is smooth and the elements of x are near 1.
    """
    weight = np.random.default_rng(1).normal(size=f(x).shape)
    dx, worst = backward(x, weight), 0.0
    for at in np.ndindex(x.shape):
        sides = []
        for step in (1e-5, -1e-5):
            moved = x.copy()
            moved[at] += step
            sides.append(np.sum(weight * f(moved)))
        worst = max(worst, abs(dx[at] - (sides[0] - sides[1]) / 2e-5))
    return worst


def softmax(x):
    """Returns e^x, divided by its sum over the row, for x [R, C] [SM-2]."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# Exercise 2.4
def softmax_backward(y, dy):
    """Returns dx [R, C], where y = softmax(x) and dy = dL/dy."""
    return y * (dy - np.sum(dy * y, axis=1, keepdims=True))
