"""Writes docstrings.h, which makes the comments of headers available as docstrings.

    docstrings.py ROOT OUTPUT

The docstring of an operation consists of its row in docs/ops.md, the comment before its declaration, and the comment at
the top of its header, which has the equations. The docstring of a header is the comment at its top.
"""
import re
import sys
from pathlib import Path

HEADERS = ["engine/tensor.h", "engine/tape.h", "models/normalizers/normalizer.h", "models/model.h",
           "train/loop/optimizer/optimizer.h"]
PYTHONS_NAMES = {"std::invalid_argument": "ValueError", "std::runtime_error": "RuntimeError"}


def uncommented(lines):
    text = "\n".join(re.sub(r"^\s*// ?", "", line) for line in lines)
    for ours, theirs in PYTHONS_NAMES.items():
        text = text.replace(ours, theirs)
    return text.strip()


def head(lines):
    """Returns the comment before #pragma once."""
    return uncommented(lines[:lines.index("#pragma once")])


def before(lines, name):
    """Returns the comment before the first declaration of `name`. Other declarations may be between the two."""
    declared = re.compile(rf"^(inline )?\w+ {name}\(")
    at = next((i for i, line in enumerate(lines) if declared.match(line)), None)
    if at is None:
        return ""
    while at > 0 and re.match(r"^\w", lines[at - 1]) and lines[at - 1].endswith(";"):
        at -= 1
    begin = at
    while begin > 0 and lines[begin - 1].startswith("//"):
        begin -= 1
    return uncommented(lines[begin:at])


def operations(root):
    """Yields the name, summary and header of each operation."""
    for line in (root / "docs/ops.md").read_text().splitlines():
        columns = [column.strip() for column in line.strip().strip("|").split("|")]
        if len(columns) != 3 or not columns[2].startswith("`ops/"):
            continue
        for name in re.findall(r"`(\w+)`", columns[0]):
            yield name, columns[1].replace("`", ""), columns[2].strip("`")


def docstrings(root):
    lines_of = lambda header: (root / header).read_text().splitlines()
    texts = {header: head(lines_of(header)) for header in HEADERS}
    for name, summary, header in operations(root):
        lines = lines_of(header)
        parts = [summary[0].upper() + summary[1:] + ".", before(lines, name), head(lines), f"Source: {header}"]
        texts[name] = "\n\n".join(part for part in parts if part)
    return texts


def main(root, output):
    rows = "".join(f'    {{"{name}", R"doc({text})doc"}},\n' for name, text in docstrings(Path(root)).items())
    text = ("// Written by python/binding/docstrings.py.\n#pragma once\n#include <utility>\n\n"
            f"inline constexpr std::pair<const char*, const char*> kDocstrings[] = {{\n{rows}}};\n")
    if not Path(output).exists() or Path(output).read_text() != text:
        Path(output).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
