"""Chapter 1: a tape of numbers. Read ch01_tape.md first."""
import math


class Tape:
    def __init__(self):
        self.steps = []  # one function per operation, in the order of recording


class Var:
    """A number on a tape. backward() adds dL/dvalue to `grad`."""

    def __init__(self, tape, value):
        self.tape, self.value, self.grad = tape, value, 0.0

    def __add__(self, other):
        return add(self, other)

    def __mul__(self, other):
        return mul(self, other)


def add(a, b):
    """Returns the Var a + b, and records its step. Use this function as a model for the exercises."""
    y = Var(a.tape, a.value + b.value)

    def step():
        a.grad += y.grad
        b.grad += y.grad

    a.tape.steps.append(step)
    return y


# Exercise 1.1
def mul(a, b):
    """Returns the Var y = a * b, and records a step that passes y.grad on to a and b."""
    y = Var(a.tape, a.value * b.value)

    def step():
        a.grad += y.grad * b.value
        b.grad += y.grad * a.value

    a.tape.steps.append(step)
    return y


# Exercise 1.2
def exp(x):
    """Returns the Var e^x, and records its step."""
    y = Var(x.tape, math.exp(x.value))

    def step():
        x.grad += y.grad * y.value

    x.tape.steps.append(step)
    return y


# Exercise 1.3
def backward(loss):
    """Adds dL/dv to v.grad for each Var v on the tape, where L is `loss`. Leaves the tape empty."""
    loss.grad = 1.0
    while loss.tape.steps:
        loss.tape.steps.pop()()


# Exercise 1.4
def difference_quotient(f, values, k, step=1e-5):
    """Returns the slope of f along values[k], from f one `step` above and below. f takes a list of numbers."""
    above, below = list(values), list(values)
    above[k] += step
    below[k] -= step
    return (f(above) - f(below)) / (2 * step)
