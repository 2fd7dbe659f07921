"""What tests here share: where things are, packages that may be absent, and programs that must succeed."""
import importlib
import os
import subprocess
import sys

PROGRAM, SOURCES = os.environ["FOLDGRAD_PROGRAM"], os.environ["FOLDGRAD_SOURCE_DIR"]
sys.path[:0] = [os.path.join(SOURCES, "examples"), os.path.join(SOURCES, "examples", "pytorch")]


def require(*packages):
    """Ends the test as skipped where one of them cannot be imported."""
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as e:
            print(f"skipped: {e}; FOLDGRAD_PYTHON must name a Python that has it")
            sys.exit(77)


def call(*command, stdin=""):
    """What the command prints on stdout."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
