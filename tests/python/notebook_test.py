"""Runs the cells of examples/notebooks/first.md unchanged in the repository's root. If a cell's package is missing,
prints a message and skips the cell. Cells 1 to 4, 6, 8 and 10 need only numpy."""
import os
import re

from setting import SOURCES, expect, printed_by, require

require("numpy", "foldgrad")

PRINTED = {  # cell: a pattern that its output must contain
    1: r"relu\(.*\n.*mul\(.*\n.*mean\(", 2: r"loss 0\.0\d+, (9\d|100)% right", 3: r"\nrmsnorm +online .* size  1\.0", 4: r"at inference y =",
    6: r"folded  encoder.*\n(.*\n)*difference in f64: .*e-1[3-9]", 8: r"\[\[\('", 9: r"50 iterations",
    10: r"The quick brown (.*\n)+.*model\.onnx",
}
OPTIONAL = {5: "hypothesis", 7: "matplotlib", 9: "torch"}


def main():
    os.chdir(SOURCES)
    os.environ.setdefault("MPLBACKEND", "agg")
    text = open("examples/notebooks/first.md").read()
    cells = re.findall(r"^## (\d+)\..*?^```python\n(.*?)^```$", text, re.M | re.S)
    expect([int(number) for number, _ in cells] == list(range(1, 11)), "there must be ten cells")
    names = {}
    for number, code in cells:
        try:
            printed = printed_by(lambda _: exec(compile(code, f"cell {number}", "exec"), names))
        except ImportError as error:
            expect(OPTIONAL.get(int(number), "-") in str(error), f"cell {number}: {error}")
            print(f"cell {number} left out: {error}")
            continue
        expect(re.search(PRINTED.get(int(number), ""), printed), f"cell {number} printed\n{printed}")


main()
