"""Histories of Unified Normalization against an oracle in NumPy, by foldgrad.testing. FOLDGRAD_STEPS sets how many steps
are made; then they are others every time."""
import os
import sys
import unittest

from setting import require

sys.path.insert(0, os.environ["FOLDGRAD_PACKAGE"])
require("numpy", "hypothesis", "foldgrad")

import foldgrad as fg
import foldgrad.testing
import numpy as np
from hypothesis import settings

STEPS, PER_HISTORY = int(os.environ.get("FOLDGRAD_STEPS", 1000)), 25
EPS, ALPHA, WARMUP, M, C = 1e-5, 0.9, 3, 4, 3


class Un:
    """The equations of ops/channel_norm/channel_norm.h, without the outlier test."""

    def __init__(self):
        self.t, self.run_var, self.psi_ema = 0, np.ones(C), np.zeros(C)
        self.q, self.G = np.zeros((M, C)), np.zeros((M, C))

    @staticmethod
    def averages(t):
        return t >= WARMUP and t > M

    def forward(self, x):
        self.t += 1
        t, q = self.t, (x * x).mean(0)                             # [CN-1]
        self.q[t % M] = q                                          # [CN-5]
        var_hat = np.exp(np.log(self.q).mean(0)) if self.averages(t) else q  # [UN-16]
        self.run_var = ALPHA * self.run_var + (1 - ALPHA) * var_hat  # [CN-6]
        rstd = 1 / np.sqrt(var_hat + EPS)
        return x * rstd, (x * rstd, rstd, t)                       # [UN-1]

    def backward(self, saved, dy):
        z, rstd, t = saved
        G = (dy * z).mean(0)
        self.G[t % M] = G
        mean = self.G.mean(0) if self.averages(t) else G
        self.psi_ema = ALPHA * self.psi_ema + (1 - ALPHA) * mean   # [UN-17]
        return (dy - z * (self.psi_ema if self.averages(t) else G)) * rstd  # [CN-2]


Machine = fg.testing.machine(lambda: fg.Normalizer("un", C, dtype="f64", warmup=WARMUP), Un)
TestUn = Machine.TestCase
TestUn.settings = settings(max_examples=STEPS // PER_HISTORY, stateful_step_count=PER_HISTORY, deadline=None,
                           derandomize="FOLDGRAD_STEPS" not in os.environ)

if __name__ == "__main__":
    unittest.main()
