"""Chapter 3: layer normalization, derived. Read ch03_layer_norm.md first."""
import numpy as np


# Exercise 3.1
def statistics(x, eps):
    """Returns mu and rstd of each row, both [R, 1] for x [R, C] [LN-1, LN-2]. They are accurate even far from 0."""
    mu = x.mean(axis=1, keepdims=True)
    return mu, 1 / np.sqrt(np.mean((x - mu) ** 2, axis=1, keepdims=True) + eps)


def layer_norm(x, gamma, beta, eps=1e-5):
    """Returns y [R, C] for x [R, C]."""
    mu, rstd = statistics(x, eps)
    return gamma * ((x - mu) * rstd) + beta


# Exercise 3.2
def through(xhat, rstd, h):
    """Returns dx [R, C], where xhat is the normalized x, rstd is [R, 1] and h = dL/dxhat [LN-4]."""
    return rstd * (h - h.mean(axis=1, keepdims=True) - xhat * np.mean(h * xhat, axis=1, keepdims=True))


# Exercise 3.3
def layer_norm_backward(x, gamma, dy, eps=1e-5):
    """Returns dx [R, C], dgamma [C] and dbeta [C]."""
    mu, rstd = statistics(x, eps)
    xhat = (x - mu) * rstd
    return through(xhat, rstd, dy * gamma), np.sum(dy * xhat, axis=0), np.sum(dy, axis=0)
