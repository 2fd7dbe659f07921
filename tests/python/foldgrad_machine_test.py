"""Compares random histories of normalizers that have state with oracles in NumPy, by foldgrad.testing. If
FOLDGRAD_STEPS is set, it is the number of steps, and each run draws other histories."""
import os
import unittest

from setting import require

require("numpy", "hypothesis", "foldgrad")

import foldgrad as fg
import foldgrad.testing
import numpy as np
from hypothesis import settings

STEPS, PER_HISTORY = int(os.environ.get("FOLDGRAD_STEPS", 2000)), 25  # STEPS is the total of all normalizers
EPS, ALPHA, WARMUP, M, C = 1e-5, 0.9, 3, 4, 3


def averaged(old, new):
    return ALPHA * old + (1 - ALPHA) * new


class MeanSquare:
    """The part of ops/channel_norm/channel_norm.h that un, mabn and pn_star share, without the outlier test."""

    def __init__(self):
        self.t = 0
        self.state = {"run_var": np.ones(C), "psi_ema": np.zeros(C),
                      "win_sq": np.zeros((M, C)), "win_g": np.zeros((M, C))}

    def forward(self, x):
        self.t += 1
        rstd = 1 / np.sqrt(self.variance((x * x).mean(0)) + EPS)   # [CN-1]
        return x * rstd, (x * rstd, rstd, self.t)                  # [UN-1]

    def backward(self, saved, dy):
        z, rstd, t = saved
        return (dy - z * self.psi((dy * z).mean(0), t)) * rstd     # [CN-2]

    def mean_of_window(self, G, t):
        self.state["win_g"][t % M] = G                             # [CN-5]
        return self.state["win_g"].mean(0) if t >= WARMUP and t > M else G


class Un(MeanSquare):
    def variance(self, q):
        window = self.state["win_sq"]
        window[self.t % M] = q                                     # [CN-5]
        var_hat = np.exp(np.log(window).mean(0)) if self.t >= WARMUP and self.t > M else q  # [UN-16]
        self.state["run_var"] = averaged(self.state["run_var"], var_hat)  # [CN-6]
        return var_hat

    def psi(self, G, t):
        self.state["psi_ema"] = averaged(self.state["psi_ema"], self.mean_of_window(G, t))  # [UN-17]
        return self.state["psi_ema"] if t >= WARMUP and t > M else G


class Mabn(MeanSquare):
    def __init__(self):
        super().__init__()
        del self.state["psi_ema"], self.state["win_sq"]

    def variance(self, q):
        self.state["run_var"] = averaged(self.state["run_var"], q)
        return self.state["run_var"] if self.t >= WARMUP else q    # [UN-14]

    def psi(self, G, t):
        return self.mean_of_window(G, t)


class PnStar(Mabn):
    def __init__(self):
        super().__init__()
        self.state = {"run_var": np.ones(C), "psi_ema": np.zeros(C)}

    def psi(self, G, t):
        self.state["psi_ema"] = averaged(self.state["psi_ema"], G)
        return self.state["psi_ema"] if t >= WARMUP else G


class Bn:
    """A single row has no variance, so the running estimates normalize it and do not change."""

    def __init__(self):
        self.state = {"run_mean": np.zeros(C), "run_var": np.ones(C)}

    def forward(self, x):
        n, mean, variance = len(x), x.mean(0), x.var(0)
        if n == 1:
            mean, variance = self.state["run_mean"], self.state["run_var"]
        else:
            self.state["run_mean"] = averaged(self.state["run_mean"], mean)
            self.state["run_var"] = averaged(self.state["run_var"], variance * n / (n - 1))  # [BN-1]
        rstd = 1 / np.sqrt(variance + EPS)
        return (x - mean) * rstd, ((x - mean) * rstd, rstd)

    def backward(self, saved, dy):
        z, rstd = saved
        return (dy if len(dy) == 1 else dy - dy.mean(0) - z * (dy * z).mean(0)) * rstd  # [BN-2]


ORACLES = {"un": (Un, {"warmup": WARMUP}), "mabn": (Mabn, {"warmup": WARMUP, "alpha": ALPHA}),
           "pn_star": (PnStar, {"warmup": WARMUP}), "bn": (Bn, {})}


def case(name):
    oracle, options = ORACLES[name]
    test = fg.testing.machine(lambda: fg.Normalizer(name, C, dtype="f64", **options), oracle).TestCase
    test.settings = settings(max_examples=STEPS // len(ORACLES) // PER_HISTORY, stateful_step_count=PER_HISTORY,
                             deadline=None, derandomize="FOLDGRAD_STEPS" not in os.environ)
    return test


TestUn, TestMabn, TestPnStar, TestBn = (case(name) for name in ORACLES)

if __name__ == "__main__":
    unittest.main()
