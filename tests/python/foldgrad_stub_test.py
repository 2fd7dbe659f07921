"""The committed stub of foldgrad._core equals the one that nanobind generates, so a changed function shows in its diff.

    FOLDGRAD_WRITE_STUB=1 ctest --preset emulate -R foldgrad_stub      # writes the stub
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setting import SOURCES, expect, require

require("nanobind", "foldgrad")

STUB = Path(SOURCES, "python/foldgrad/_core")


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "nanobind.stubgen", "-q", "-D", "-r", "-m", "foldgrad._core", "-O", folder,
                        "-p", os.path.join(SOURCES, "python/binding/stub_patterns.txt")],
                       check=True, env=dict(os.environ, PYTHONPATH=os.environ["FOLDGRAD_PACKAGE"]))
        made = Path(folder, "_core")
        if os.environ.get("FOLDGRAD_WRITE_STUB"):
            shutil.copytree(made, STUB, dirs_exist_ok=True)
        names = sorted(file.name for file in made.iterdir())
        expect(names == sorted(file.name for file in STUB.iterdir()), f"the stub has other files than {names}")
        for name in names:
            expect((made / name).read_text() == (STUB / name).read_text(),
                   f"{name} is not that of the module; write it with FOLDGRAD_WRITE_STUB=1")


main()
