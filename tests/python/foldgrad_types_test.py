"""Checks that mypy --strict accepts python/foldgrad and the stub of foldgrad._core, so users can type-check their
programs."""
import os
import subprocess
import sys

from setting import SOURCES, require

require("mypy", "numpy", "scipy", "matplotlib", "hypothesis", "tensorboard", "torch")

cache = os.path.join(os.path.dirname(os.environ["FOLDGRAD_PROGRAM"]), "mypy")
sys.exit(subprocess.run([sys.executable, "-m", "mypy", "-p", "foldgrad", "--cache-dir", cache], cwd=SOURCES,
                        env=dict(os.environ, MYPYPATH="python")).returncode)
