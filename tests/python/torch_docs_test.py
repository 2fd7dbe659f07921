"""Checks that the code of docs/pytorch.md and python/README.md runs unchanged and prints the output that they give.
Uses a package installed by pip if possible."""
import contextlib
import importlib.metadata
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setting import SOURCES, expect, require

require("torch")
import torch  # noqa: E402


def installed(directory):
    """Installs the package with pip from a copy of python/, and puts it first on the search path. Without pip, the
    test uses the source tree's package."""
    wheels = importlib.util.find_spec("setuptools") and importlib.util.find_spec("setuptools.command.bdist_wheel")
    if not (wheels and importlib.util.find_spec("pip")):
        print("not installed: there is no pip with setuptools of 70.1 or later")
        return
    copy, target = os.path.join(directory, "python"), os.path.join(directory, "installed")
    shutil.copytree(os.path.join(SOURCES, "python"), copy)
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
                           "--no-index", "--disable-pip-version-check", "--target", target, copy],
                          capture_output=True, text=True)
    expect(done.returncode == 0, f"pip install: {done.stdout}{done.stderr}")
    sys.path.insert(0, target)
    import foldgrad_torch
    expect(foldgrad_torch.__file__.startswith(target), f"not the installed package: {foldgrad_torch.__file__}")
    version = re.search(r"project\(foldgrad VERSION (\S+)", Path(SOURCES, "CMakeLists.txt").read_text())[1]
    expect(importlib.metadata.version("foldgrad-torch") == version, "the version must be that of CMakeLists.txt")
    there = {name for name in os.listdir(os.path.join(SOURCES, "python", "foldgrad_torch")) if name.endswith(".py")}
    expect(there <= set(os.listdir(os.path.dirname(foldgrad_torch.__file__))), "a file is not installed")


def run(page):
    """Runs the code blocks of a page in order, and checks that each text block is the output of the code before it.
    Returns the number of blocks that ran."""
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", Path(SOURCES, page).read_text(encoding="utf-8"), flags=re.M | re.S)
    names, printed, ran = {}, "", 0
    torch.manual_seed(1)
    for language, text in blocks:
        if language == "text":
            expect(printed == text, f"{page}: the code must print\n{text}got\n{printed}")
            continue
        expect(language == "python", f"{page}: a code block must be Python, got {language}")
        if re.search(r"\btimm\b|\bvit\b", text) and not importlib.util.find_spec("timm"):
            print(f"{page}: a block is skipped, since there is no timm")
            continue
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(text, f"{page}, block {ran}", "exec"), names)
        printed, ran = output.getvalue(), ran + 1
    return ran


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory:
        installed(directory)
        ran = run("docs/pytorch.md"), run("python/README.md")
        expect(ran[0] >= 5 and ran[1] == 1, f"too few blocks ran: {ran}")
    print("the code of docs/pytorch.md runs")
