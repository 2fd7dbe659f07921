"""PNAC of random recordings is what SciPy's normaltest makes of them, window by window."""
import json
import os
import sys
import tempfile

from setting import PROGRAM, call, require, safetensors

require("numpy", "scipy")
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

ROWS, WINDOWS = 60, (8, 20, 32, 60)


def write_recording(path, sites):
    """`sites`: {name: (q, G)}, arrays of f32."""
    tensors = {f"{site}.{name}": ("F32", values.shape, values.tobytes()) for site, pair in sites.items()
               for name, values in zip("qG", pair)}
    tensors["update"] = ("I64", [ROWS], np.arange(1, ROWS + 1).tobytes())
    with open(path, "wb") as file:
        file.write(safetensors(tensors, {"normalizer": "ln", "sites": " ".join(sites)}))


def percentages(values, window):
    parts = [stats.normaltest(values[t:t + window].astype(np.float64), axis=0).pvalue
             for t in range(ROWS - window + 1)]
    return [100 * np.mean(p > 0.05) for p in parts]


def main():
    rng = np.random.default_rng(1)
    kinds = {"normal": lambda shape: rng.normal(5, 2, shape), "log_normal": lambda shape: rng.lognormal(0, 0.4, shape),
             "walk": lambda shape: rng.normal(size=shape).cumsum(0)}
    sites = {name: tuple(make((ROWS, 70)).astype(np.float32) for _ in "qG") for name, make in kinds.items()}
    levels = set()
    with tempfile.TemporaryDirectory() as run:
        os.mkdir(os.path.join(run, "statistics"))
        write_recording(os.path.join(run, "statistics/begin.safetensors"), sites)
        for window in WINDOWS:
            [ours] = json.loads(call(PROGRAM, "analyze", "pnac", run, "--window", str(window), "--json"))
            for site, pair in zip(ours["sites"], sites.values()):
                for name, values in zip("qG", pair):
                    got, want = site[f"{name} begin"]["values"], percentages(values, window)
                    levels.update(got)
                    if len(got) != len(want) or not np.allclose(got, want, rtol=0, atol=1e-9):
                        sys.exit(f"{site['site']}.{name}, window {window}: must be {want}, got {got}")
    if len(levels) < 30:
        sys.exit("the recordings must be such that percentages differ")


if __name__ == "__main__":
    main()
