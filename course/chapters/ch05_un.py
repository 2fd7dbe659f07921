"""Chapter 5: Unified Normalization from its equations. Read ch05_un.md first."""
import numpy as np


# Exercise 5.1
def geometric_mean(window):
    """Returns the geometric mean of each column of `window` [M, C], for entries from 1e-300 to 1e300."""
    return np.exp(np.mean(np.log(window), axis=0))


class UN:
    """Unified Normalization for arrays [rows, channels], with gamma = 1, beta = 0 and no outlier test."""

    def __init__(self, channels, window, warmup, alpha=0.9, eps=1e-5):
        self.window, self.warmup, self.alpha, self.eps = window, warmup, alpha, eps
        self.t = 0                                  # iteration number; the first is 1
        self.run_var = np.ones(channels)            # running average of var_hat, for inference
        self.win_sq = np.zeros((window, channels))  # ring of the last `window` mean squares q
        self.win_g = np.zeros((window, channels))   # ring of the last `window` gradient statistics G
        self.psi_ema = np.zeros(channels)           # running average of G

    # Exercise 5.2
    def forward(self, x):
        """Runs a training pass, which updates t, win_sq and run_var. Returns z, and the values for backward()."""
        self.t += 1
        q = np.mean(x * x, axis=0)
        self.win_sq[self.t % self.window] = q
        full = self.t > self.window and self.t >= self.warmup
        active = full and self.window > 1
        var_hat = geometric_mean(self.win_sq) if active else q
        self.run_var = self.alpha * self.run_var + (1 - self.alpha) * var_hat
        rstd = 1 / np.sqrt(var_hat + self.eps)
        return x * rstd, (self.t, full, active, x * rstd, rstd)

    # Exercise 5.3
    def backward(self, saved, dy):
        """Returns dx for the pass that returned `saved`, and updates win_g and psi_ema. Other passes may have run
        since."""
        t, full, active, z, rstd = saved
        G = np.mean(dy * z, axis=0)
        self.win_g[t % self.window] = G
        m = self.win_g.mean(axis=0) if full else G
        self.psi_ema = self.alpha * self.psi_ema + (1 - self.alpha) * m
        psi = self.psi_ema if active else G
        return (dy - z * psi) * rstd

    # Exercise 5.4
    def affine(self):
        """Returns A and B, both [channels], of the map y = A x + B at inference."""
        return 1 / np.sqrt(self.run_var + self.eps), np.zeros_like(self.run_var)
