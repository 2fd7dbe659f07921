"""Checks of chapter 2."""
import numpy as np

from foldgrad.course import expect, near, solution


def check_1(m):
    near(m.softplus(np.array([0.0, 1.0, -3.0])), [np.log(2), np.log1p(np.e), np.log1p(np.exp(-3))],
         "Compare with log(1 + e^x) by a calculator, for x of either sign.", "x = 0, 1, -3")
    near(m.softplus(np.array([1000.0])), [1000], "e^1000 is not a number of f64. Can you write the same function with "
         "an exponent that is never positive?", "x = 1000")
    small = m.softplus(np.array([-40.0]))
    expect(abs(small[0] * np.exp(40.0) - 1) < 1e-9, "1 + e^-40 is 1 in f64. Which function of NumPy takes the small "
           "part alone?", small[0], np.exp(-40.0), "x = -40")


def check_2(m):
    import foldgrad as fg
    x, dy = np.array([-2.0, 0.5, 3.0]), np.array([1.0, -2.0, 0.25])
    got, slope = m.softplus_backward(x, dy), 1 / (1 + np.exp(-x))
    think = "Differentiate log(1 + e^x). Which sign has the slope for large x, and to which number does it tend?"
    if np.allclose(got, slope):
        think = "This is dy/dx. The loss depends on y by dy."
    near(got, slope * dy, think, "x = -2, 0.5, 3 and dy = 1, -2, 0.25")
    near(m.softplus_backward(np.array([1000.0, -1000.0]), np.ones(2)), [1, 0], "e^1000 is infinite, and infinity over "
         "infinity is NaN. Can you write the slope so that a large exponent does no harm?", "x = 1000, -1000")

    class Softplus(fg.Function):
        def forward(self, x):
            return solution(2).softplus(x), x.copy()

        def backward(self, x, dy):
            return m.softplus_backward(x, dy)

    error = max(fg.check_gradients(Softplus(), x))
    expect(error < 1e-7, "The engine's check of your operation on a tape fails.", error, "at most 1e-7")


def check_3(m):
    x = np.random.default_rng(2).normal(size=(2, 3))
    kept, soft = x.copy(), solution(2)
    tanh, softmax = (np.tanh, lambda x, dy: dy * (1 - np.tanh(x) ** 2)), (
        soft.softmax, lambda x, dy: soft.softmax_backward(soft.softmax(x), dy))
    for name, (f, backward) in (("tanh", tanh), ("softmax", softmax)):
        got = m.gradient_error(f, backward, x)
        expect(np.array_equal(x, kept), "Each quotient must start from the same x.", "x was changed", "x as before")
        expect(got < 1e-7, "This backward is right. Is your quotient from both sides, of the same L that gave dy?", got,
               "at most 1e-7", f"{name}, right")
    for name, f, wrong, think in (
            ("tanh without its chain rule", np.tanh, lambda x, dy: 1 - np.tanh(x) ** 2,
             "What does your dy look like? With which dy would this mistake show?"),
            ("tanh with a dx that is 1 too small", np.tanh, lambda x, dy: tanh[1](x, dy) - 1,
             "A difference can have either sign."),
            ("softmax with dx = 0", soft.softmax, lambda x, dy: 0 * x,
             "Each row of softmax has the sum 1. Which L does not move with x, and which does?"),
            ("a wrong last element", np.tanh, lambda x, dy: tanh[1](x, dy) + (np.arange(6) == 5).reshape(2, 3),
             "Does your function look at every element?")):
        got = m.gradient_error(f, wrong, x)
        expect(got > 1e-3, think, got, "more than 1e-3", name)


def check_4(m):
    y = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    near(m.softmax_backward(y, np.ones((2, 3))), np.zeros((2, 3)), "dy = 1 everywhere is the gradient of a sum that is "
         "always 1. Which dx follows? Which term of yours does not vanish?", "dy = 1")
    dy = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, -1.0]])
    near(m.softmax_backward(y, dy), y * (dy - np.sum(dy * y, 1, keepdims=True)),
         "y_j depends on x_i for every i and j of a row: write dy_j/dx_i for i = j and for i != j, and sum over j.",
         "two rows")
