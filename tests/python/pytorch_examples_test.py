"""The examples in PyTorch give the logits of foldgrad, for models written by either."""
import os
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError as e:
    print(f"skipped: {e}; FOLDGRAD_PYTHON must name a Python that has it")
    sys.exit(77)

PROGRAM, SOURCES = os.environ["FOLDGRAD_PROGRAM"], os.environ["FOLDGRAD_SOURCE_DIR"]
sys.path.insert(0, os.path.join(SOURCES, "examples"))
from model_files import load_tensors, save_tensors  # noqa: E402


def call(*command, stdin=""):
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def example(name, *arguments):
    return call(sys.executable, os.path.join(SOURCES, "examples", name), *arguments)


def batch():
    """Sources padded on the left, targets on the right."""
    torch.manual_seed(2)
    source, target = torch.randint(4, 8, (5, 7)), torch.randint(4, 9, (5, 6))
    for row in range(5):
        source[row, :row] = 1
        target[row, 6 - row:] = 1
    target[:, 0] = 2
    return {"source": source, "input": target}


def largest_difference(a, b):
    """Over positions that are not padding, relative to 1 + |a|; infinite for a NaN."""
    difference = ((a - b).abs() / (1 + a.abs())).max().item()
    return difference if difference == difference else float("inf")


def check(what, directory, files, tolerance=1e-5):
    ours, theirs = os.path.join(files, "ours"), os.path.join(files, "theirs")
    given = os.path.join(files, "in")
    save_tensors(given, batch())
    call(PROGRAM, "run", directory, "--input", given, "--output", ours)
    example("pytorch_model.py", directory, given, theirs)
    real = batch()["input"] != 1
    difference = largest_difference(load_tensors(ours)["logits"][real], load_tensors(theirs)["logits"][real])
    print(f"{what}: largest relative difference of the logits {difference:.2e}")
    if not difference <= tolerance:
        sys.exit(f"{what}: it must be at most {tolerance}")
    return load_tensors(ours)["logits"][real]


def main():
    with tempfile.TemporaryDirectory() as files:
        for norm in ("un", "ln"):
            written, again, folded = (os.path.join(files, f"{norm}-{name}") for name in ("pt", "again", "folded"))
            example("pytorch_export.py", written, "--norm", norm)
            logits = check(f"{norm}, written by PyTorch", written, files)
            call(PROGRAM, "average", written, "-o", again)
            check(f"{norm}, written by foldgrad", again, files)
            lines = call(PROGRAM, "translate", written, stdin="ein zwei\n\ndrei\n").split("\n")
            if len(lines) != 4 or lines[1] != "":
                sys.exit(f"translate must give three lines, the second empty, got {lines}")
            if norm == "un":
                call(PROGRAM, "fold", written, "-o", folded)
                difference = largest_difference(logits, check("un, folded", folded, files))
                print(f"un, folded and not: largest relative difference {difference:.2e}")
                if not difference <= 1e-4:  # products of rounded weights in another order
                    sys.exit("it must be at most 1e-4")


if __name__ == "__main__":
    main()
