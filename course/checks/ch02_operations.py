"""Checks of chapter 2."""
import numpy as np

from foldgrad.course import expect, near, solution


def check_1(m):
    near(m.softplus(np.array([0.0, 1.0, -3.0])), [np.log(2), np.log1p(np.e), np.log1p(np.exp(-3))],
         "Compute log(1 + e^x) with a calculator and compare, for x of either sign.", "x = 0, 1, -3")
    near(m.softplus(np.array([1000.0, -1000.0])), [1000, 0], "e^1000 overflows in f64. Can you write the same "
         "function with an exponent that is never positive, for x of either sign?", "x = 1000, -1000")
    small = m.softplus(np.array([-40.0]))
    expect(abs(small[0] * np.exp(40.0) - 1) < 1e-9, "1 + e^-40 is 1 in f64. Which function of NumPy takes only the "
           "small part, and what do you add to its result?", small[0], np.exp(-40.0), "x = -40")
    near(m.softplus(np.array([20.5, 32.0])), np.array([20.5, 32.0]) + np.log1p(np.exp([-20.5, -32.0])), "Which "
         "term do you leave out here, and is it smaller than the last bit of x?", "x = 20.5, 32", 2e-16)


def check_2(m):
    x, dy = np.array([-2.0, 0.5, 3.0]), np.array([1.0, -2.0, 0.25])
    slope = 1 / (1 + np.exp(-x))
    near(m.softplus_backward(x, 0 * dy), 0 * dy, "dy = 0: L does not depend on y. How does dy enter dx?",
         "x = -2, 0.5, 3 and dy = 0", known=((slope, "This is dy/dx. Where does dy = dL/dy enter?"),))
    near(m.softplus_backward(x, np.ones(3)), slope, "Differentiate log(1 + e^x). Draw it: what is the slope near "
         "x = 1000, and near x = -1000?", "x = -2, 0.5, 3 and dy = 1")
    near(m.softplus_backward(x, dy), slope * dy, "For dy = 1 you are right. Which elements of dx depend on any one "
         "element of dy?", "x = -2, 0.5, 3 and dy = 1, -2, 0.25")
    near(m.softplus_backward(np.array([1000.0, -1000.0]), np.ones(2)), [1, 0], "e^1000 is infinite, and infinity over "
         "infinity is NaN. Can you write the slope so that a large exponent does no harm?", "x = 1000, -1000")


def check_3(m):
    x = np.random.default_rng(2).normal(size=(2, 3))
    soft, M = solution(2), np.array([[1.0, 2.0, -1.0, 0.5], [0.0, 1.0, 3.0, -2.0]])

    def tanh(x, dy):
        return dy * (1 - np.tanh(x) ** 2)

    for name, f, backward, at in (
            ("tanh", np.tanh, tanh, x),
            ("softmax", soft.softmax, lambda x, dy: soft.softmax_backward(soft.softmax(x), dy), x),
            ("y = M x with x [4] and y [2]", lambda x: M @ x, lambda x, dy: M.T @ dy, x.ravel()[:4])):
        got = m.gradient_error(f, backward, at)
        near(got, 0, "This backward pass is right, so a quotient is wrong. Is it from both sides, and of the L that "
             "gave dy? Which step keeps both errors small (chapter 1)? Does each quotient start from the same x?",
             f"{name}, right", 1e-7)
    for name, f, wrong, think in (
            ("tanh with a dx that is 1 too small", np.tanh, lambda x, dy: tanh(x, dy) - 1,
             "A difference can have either sign."),
            ("tanh without the chain rule", np.tanh, lambda x, dy: 1 - np.tanh(x) ** 2,
             "What does your dy look like? With which dy would this mistake show?"),
            ("softmax with dx = 0", soft.softmax, lambda x, dy: 0 * x,
             "Each row of softmax has the sum 1. Which L does not depend on x, and which does?"),
            ("a wrong last element", np.tanh, lambda x, dy: tanh(x, dy) + (np.arange(6) == 5).reshape(2, 3),
             "Does your function look at every element?")):
        got = m.gradient_error(f, wrong, x)
        expect(got > 1e-3, think, got, "more than 1e-3", name)
    near(got, 1, "Five elements are right, and one is off by 1. What does the docstring promise?", name, 1e-5)


def check_4(m):
    y = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    near(m.softmax_backward(y, np.ones((2, 3))), np.zeros((2, 3)), "dy = 1 everywhere is the gradient of a sum that is "
         "always 1. Which dx follows? Which of your terms does not vanish, and over which numbers does it sum?",
         "dy = 1")
    dy = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, -1.0]])
    near(m.softmax_backward(y, dy), y * (dy - np.sum(dy * y, 1, keepdims=True)),
         "y_j depends on x_i for every i and j of a row: write dy_j/dx_i for i = j and for i != j, and sum over j.",
         "two rows")
