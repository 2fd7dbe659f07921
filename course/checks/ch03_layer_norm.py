"""Checks of chapter 3."""
import numpy as np

from foldgrad.course import expect, near, solution

draw = np.random.default_rng(3).normal
x, h, dy = draw(size=(4, 6)), draw(size=(4, 6)), draw(size=(4, 6))
gamma, beta, eps = 1 + 0.3 * draw(size=6), draw(size=6), 1e-5


def check_1(m):
    mu, rstd = m.statistics(x, eps)
    near(mu, x.mean(1, keepdims=True), "Over which numbers is the mean of a row?", "mu")
    near(rstd, 1 / np.sqrt(x.var(1, keepdims=True) + eps), "Compute [LN-1] and [LN-2] for one row by hand: which "
         "denominator has the variance, where is eps, and what is over the root?", "rstd")
    _, rstd = m.statistics(x + 1e8, eps)
    near(rstd, 1 / np.sqrt(x.var(1, keepdims=True) + eps), "Which two large numbers do you subtract? How many digits "
         "of their difference are left?", "a row near 1e8", 1e-5)


def check_2(m):
    mu, rstd = solution(3).statistics(x, 0.0)
    xhat = (x - mu) * rstd
    got = m.through(xhat, rstd, h)
    near(np.shape(got), np.shape(x), "dx has the shape of x.", "shape")
    near(np.sum(got, 1), np.zeros(4), "Adding a number to all of a row does not move y, so each row of dx has the sum "
         "0. Which term removes the sum?", "sum of each row of dx")
    near(np.sum(got * xhat, 1), np.zeros(4), "Stretching a row does not move y, so dx has no part along xhat. Which "
         "term removes that part, and is it a mean or a sum?", "dx . xhat of each row")
    near(got, solution(3).through(xhat, rstd, h), "Both properties hold. Which factor turns a change of xhat into one "
         "of x, and is the rest of h kept?", "dx")


def check_3(m):
    import foldgrad as fg
    n = fg.Normalizer("ln", 6, dtype="f64")
    for p, value in zip(n.parameters, (gamma, beta)):
        p.value.numpy()[:] = value
    _, pullback = n.vjp(x)
    dx, of = pullback(dy)
    got = m.layer_norm_backward(x, gamma, dy, eps)
    expect(isinstance(got, tuple) and len(got) == 3, "Three things depend on x, gamma and beta.", type(got).__name__,
           "a tuple dx, dgamma, dbeta")
    for name, value, wanted, think in (
            ("dbeta", got[2], of["norm.bias"], "beta is added to each row. Over which axis do its gradients add up?"),
            ("dgamma", got[1], of["norm.weight"], "gamma multiplies a number. Which one, before or after normalizing?"),
            ("dx", got[0], dx, "through() takes dL/dxhat. What lies between xhat and y?")):
        near(value, wanted.numpy(), think, f"{name}, held to the engine's ln")
