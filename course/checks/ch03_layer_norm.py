"""Checks of chapter 3."""
import numpy as np

from foldgrad.course import near, several, solution

draw = np.random.default_rng(3).normal
x, h, dy = draw(size=(4, 6)), draw(size=(4, 6)), draw(size=(4, 6))
gamma, beta, eps = 1 + 0.3 * draw(size=6), draw(size=6), 1e-5


def check_1(m):
    mu, rstd = several(m.statistics(x, eps), "mu, rstd")
    near(mu, x.mean(1, keepdims=True), "Over which numbers do you take the mean of a row?", "mu")
    near(rstd, 1 / np.sqrt(x.var(1, keepdims=True) + eps), "Compute [LN-1] and [LN-2] for one row by hand. By "
         "which number do you divide the sum of squares? Where is eps? What is below the fraction bar?", "rstd")
    _, rstd = m.statistics(x + 1e8, eps)
    near(rstd, 1 / np.sqrt(x.var(1, keepdims=True) + eps), "Which two large numbers do you subtract? How many digits "
         "of their difference are correct?", "a row near 1e8", 1e-5)


def check_2(m):
    mu, rstd = solution(3).statistics(x, 0.0)
    xhat = (x - mu) * rstd
    got = m.through(xhat, rstd, h)
    near(np.shape(got), np.shape(x), "dx has the shape of x.", "shape")
    near(np.sum(got, 1), np.zeros(4), "Adding a number to a whole row does not change y, so each row of dx has the sum "
         "0. Which term removes the sum, and which numbers does it average?", "sum of each row of dx")
    near(np.sum(got * xhat, 1), np.zeros(4), "Stretching a row does not change y, so dx has no part along xhat. Which "
         "term removes that part? Is it a mean or a sum, and of which numbers?", "dx . xhat of each row")
    near(got, solution(3).through(xhat, rstd, h), "Both properties hold. Which factor turns a change of xhat into one "
         "of x, and do you keep the rest of h?", "dx")


def check_3(m):
    import foldgrad as fg
    n = fg.Normalizer("ln", 6, dtype="f64")
    for p, value in zip(n.parameters, (gamma, beta)):
        p.value.numpy()[:] = value
    _, pullback = n.vjp(x)
    dx, of = pullback(dy)
    got = several(m.layer_norm_backward(x, gamma, dy, eps), "dx, dgamma, dbeta")
    dbeta, dgamma = of["norm.bias"].numpy(), of["norm.weight"].numpy()
    mu, rstd = solution(3).statistics(x, 0.0)
    nearly = np.sum(dy * (x - mu) * rstd, 0), "Almost. Does eps enter where you compute rstd?"
    late = np.sum(dy * gamma, 0), "beta is added after gamma has been applied. Which gradient arrives there?"
    for name, value, wanted, think, known in (
            ("dbeta", got[2], dbeta, "beta is added to each row. Over which axis do its gradients add up?",
             (late, (dgamma, "This is dgamma. In which order does the docstring name the results?"))),
            ("dgamma", got[1], dgamma, "gamma multiplies a number: the one before or after normalizing?", (nearly,)),
            ("dx", got[0], dx.numpy(), "through() takes dL/dxhat. What is between xhat and y?", ())):
        near(value, wanted, think, f"{name}, compared with the engine's ln", known=known)
