"""Helpers of the tests in this folder: paths, optional packages, calls of programs, and comparisons."""
import contextlib
import importlib
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

PROGRAM, SOURCES = os.environ["FOLDGRAD_PROGRAM"], str(Path(__file__).parents[2])
sys.path[:0] = [os.path.join(SOURCES, "examples"), os.path.join(SOURCES, "python")]


def require(*packages):
    """Ends the test as skipped if a package cannot be imported. Imports foldgrad from $FOLDGRAD_PACKAGE."""
    for package in packages:
        if package == "foldgrad":
            sys.path.insert(0, os.path.abspath(os.environ["FOLDGRAD_PACKAGE"]))
        try:
            importlib.import_module(package)
        except ImportError as e:
            print(f"skipped: {e}; FOLDGRAD_PYTHON must name a Python that has this package")
            sys.exit(77)


def call(*command, stdin=""):
    """Runs a command, which must succeed, and returns its stdout."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def safetensors(tensors, metadata):
    """Returns the bytes of a safetensors file. `tensors` is {name: (type, shape, bytes)}."""
    header, data = {"__metadata__": metadata}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def printed_by(main, *arguments):
    """Calls an example's main() with these arguments. Returns its output, or the message with which it exits."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            main([*arguments])
    except SystemExit as e:
        return str(e)
    return printed.getvalue()


def change_config(directory, change):
    """Reads a model's config.json, lets change() edit the dictionary in place, and writes it back."""
    path = Path(directory, "config.json")
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def logits_of(model, *options, **inputs):
    """Returns the logits that `foldgrad run` computes from PyTorch tensors with these options."""
    from model_files import load_tensors, save_tensors
    with tempfile.TemporaryDirectory() as files:
        given, out = os.path.join(files, "in"), os.path.join(files, "out")
        save_tensors(given, inputs)
        call(PROGRAM, "run", model, "--input", given, "--output", out, *options)
        return load_tensors(out)["logits"]


def largest_difference(got, want):
    """Returns the largest difference, relative to 1 + |want|. Returns infinity if there is a NaN."""
    off = ((got - want).abs() / (1 + want.abs())).max().item()
    return off if off == off else float("inf")


def expect_near_greatest(name, got, want, tolerance):
    """Prints the largest difference, relative to the largest |want|, and checks that it is within the tolerance."""
    off = ((got - want).abs().max() / want.abs().max()).item()
    print(f"{name}: logits differ by {off:.1e} of the greatest")
    expect(off <= tolerance, f"{name}: at most {tolerance} is allowed")


def expect_refused(directory, name, printed, message):
    """Checks that a failed import printed this error and wrote nothing."""
    expect(message in printed and not os.path.exists(os.path.join(directory, name)),
           f"{name}: must say {message!r} and write nothing, got {printed!r}")


def expect(holds, what):
    if not holds:
        sys.exit(what)


def run_tests(module, printed, *tests):
    """If the module runs as a program, calls its tests with a single PyTorch thread, and then prints `printed`."""
    if module != "__main__":
        return
    import torch
    torch.set_num_threads(1)
    for test in tests:
        test()
    print(printed)


def expect_error(kind, message, call):
    """Checks that call() raises an error of this kind whose text contains the message."""
    try:
        call()
    except kind as error:
        expect(message in str(error), f"the message must have '{message}', got '{error}'")
    else:
        sys.exit(f"no error: {message}")


def warnings_of(call):
    """Returns the texts of the warnings that call() issues, with repeated warnings only once (Python's default)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        call()
    return [str(w.message) for w in caught]
