"""Checks that the committed stub of foldgrad._core is the one that nanobind generates. So the stub's diff shows every
changed function.

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
        expect(names == sorted(file.name for file in STUB.iterdir()), f"the committed stub must have the files {names}")
        for name in names:
            expect((made / name).read_text() == (STUB / name).read_text(),
                   f"{name} does not match the module; run the test with FOLDGRAD_WRITE_STUB=1 to write it")


main()
