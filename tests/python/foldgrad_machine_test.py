"""Compares UN with a NumPy reference in random histories of calls, using foldgrad.testing. If FOLDGRAD_STEPS is set,
it is the number of steps, and every run of the test draws different histories."""
import os
import unittest

from setting import require

require("numpy", "hypothesis", "foldgrad")

import foldgrad as fg
import foldgrad.testing
import numpy as np
from hypothesis import settings

STEPS, PER_HISTORY = int(os.environ.get("FOLDGRAD_STEPS", 2000)), 25
EPS, ALPHA, WARMUP, M, C = 1e-5, 0.9, 3, 4, 3


def averaged(old, new):
    return ALPHA * old + (1 - ALPHA) * new


class Un:
    """UN in NumPy, as in ops/channel_norm/channel_norm.h, but without the outlier test."""

    def __init__(self):
        self.t = 0
        self.state = {"run_var": np.ones(C), "psi_ema": np.zeros(C),
                      "win_sq": np.zeros((M, C)), "win_g": np.zeros((M, C))}

    def variance(self, q):
        window = self.state["win_sq"]
        window[self.t % M] = q                                     # [CN-5]
        var_hat = np.exp(np.log(window).mean(0)) if self.t >= WARMUP and self.t > M else q  # [UN-16]
        self.state["run_var"] = averaged(self.state["run_var"], var_hat)  # [CN-6]
        return var_hat

    def forward(self, x):
        self.t += 1
        rstd = 1 / np.sqrt(self.variance((x * x).mean(0)) + EPS)   # [CN-1]
        return x * rstd, (x * rstd, rstd, self.t)                  # [UN-1]

    def psi(self, G, t):
        self.state["win_g"][t % M] = G                             # [CN-5]
        mean = self.state["win_g"].mean(0) if t >= WARMUP and t > M else G
        self.state["psi_ema"] = averaged(self.state["psi_ema"], mean)  # [UN-17]
        return self.state["psi_ema"] if t >= WARMUP and t > M else G

    def backward(self, saved, dy):
        z, rstd, t = saved
        return (dy - z * self.psi((dy * z).mean(0), t)) * rstd     # [CN-2]


TestUn = fg.testing.machine(lambda: fg.Normalizer("un", C, dtype="f64", warmup=WARMUP), Un).TestCase
TestUn.settings = settings(max_examples=STEPS // PER_HISTORY, stateful_step_count=PER_HISTORY, deadline=None,
                           derandomize="FOLDGRAD_STEPS" not in os.environ)

if __name__ == "__main__":
    unittest.main()
