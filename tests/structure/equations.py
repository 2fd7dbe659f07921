"""Checks the tags of docs/equations.md. Code must cite each tag at a line that computes it, tests must cite each tag,
and nothing may cite a tag that has no row. Code cites [LN-4]; tests do so too, or have LN_4 in the name of a test. Rows
that say "property: ..." or "definition: ..." are not computed, so only comments cite them. Every numbered equation of
the UN paper must also have a row, with tags, tests or the word "prose". docs/backward.md must be current (backward.py).
"""
import re
import sys
from collections import Counter
from pathlib import Path

import backward
from sources import EQUATION, EQUATIONS, numbers, rows

TAG = r"[A-Z][A-Z0-9]*-[0-9A-Za-z.]*[0-9A-Za-z]"
CODE = ("engine", "ops", "models", "train")


def texts(root, folders):
    """Yields (path, text) of all C++ and CUDA files below these folders."""
    for path in (path for folder in folders for path in sorted((root / folder).rglob("*"))):
        if path.suffix in (".h", ".cpp", ".cu"):
            yield path.relative_to(root), path.read_text()


def cited(text):
    """Returns the tags in brackets; [LN-1, LN-2] has two."""
    groups = re.findall(rf"\[{TAG}(?:, ?{TAG})*\]", text)
    return {tag for tag in re.findall(TAG, " ".join(groups)) if not re.fullmatch("[A-Z]-[A-Z]", tag)}  # skips [A-Z]


def test_names(text):
    """Returns the names of a file's tests, with a _ before and after each part: _LayerNorm_LN_4_ZeroRows_."""
    heads = re.findall(r"(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\([^)]*\)", text)
    return "_" + re.sub(r"[^A-Za-z0-9]+", "_", " ".join(heads)) + "_"


def named(known, names):
    """Returns the known tags that occur in `names`, and `names` without them."""
    found = set()
    for tag in sorted(known, reverse=True):  # LN-1.1 must come before LN-1
        part = f"_{re.sub('[-.]', '_', tag)}_"
        if part in names:
            found.add(tag)
            names = names.replace(part, "__")
    return found, names


def unknown(root, known, names):
    """Yields a message for each tag that is cited, or is in the name of a test, but has no row."""
    for path, text in texts(root, (*CODE, "tests")):
        for tag in sorted(cited(text) - known):
            yield f"{path} cites [{tag}], which docs/equations.md does not list"
    for family in sorted({tag.split("-")[0] for tag in known}):
        for name in re.findall(rf"_{family}_[0-9][0-9A-Za-z]*_", names):
            yield f"a test is named after {name}, which docs/equations.md does not list"


def uncited(root, listed, in_names):
    """Yields a message for each row that lacks a required citation, and for each property or definition that a line of
    code computes."""
    code = "".join(text for _, text in texts(root, CODE))
    in_code, computed = cited(code), cited(re.sub(r"^[ \t]*//.*", "", code, flags=re.M))
    in_tests = in_names | cited("".join(text for _, text in texts(root, ["tests"])))
    for tag, says in listed:
        is_computed = not says.startswith(("property: ", "definition: "))
        if tag not in in_code:
            yield f"[{tag}] is cited nowhere in {', '.join(CODE)}"
        elif is_computed and tag not in computed:
            yield f"[{tag}] is cited only by comments, not at a line of code that computes it"
        elif tag in computed and not is_computed:
            yield f"[{tag}] is a property or a definition in docs/equations.md, but a line of code computes it"
        if tag not in in_tests:
            yield f"[{tag}] is cited nowhere in tests/"


def of_the_paper(page, known, names):
    """Yields a message for each fault in the rows of the UN paper's equations. Their first cell is a number such as (2)
    or (2)-(3), and their last cell has the tags and tests."""
    numbered = [(cells[0], cells[-1]) for _, cells in rows(page) if EQUATION.match(cells[0])]
    found = [n for name, _ in numbered for n in numbers(name)]
    if found != list(range(1, EQUATIONS + 1)):
        yield f"the UN paper's {EQUATIONS} equations must be listed in order, got {found}"
    for name, place in numbered:
        tags, tests = re.findall(r"[A-Z]+-[0-9]+", place), re.findall(r"[A-Za-z]+\.[A-Z][A-Za-z0-9_]+", place)
        if not tags and not tests and "prose" not in place:
            yield f"{name} has no tag, no test and not the word prose"
        yield from (f"{name} names {tag}, which the first table does not list" for tag in tags if tag not in known)
        yield from (f"{name} names a test {test}, which does not exist" for test in tests
                    if f"_{test.replace('.', '_')}_" not in names)


def faults(root):
    page = (root / "docs/equations.md").read_text()
    listed = [(cells[0], cells[-1]) for _, cells in rows(page) if re.fullmatch(TAG, cells[0])]
    counts = Counter(tag for tag, _ in listed)
    yield from (f"docs/equations.md lists {tag} twice" for tag, count in counts.items() if count > 1)
    names = "".join(test_names(text) for _, text in texts(root, ["tests"]))
    in_names, rest = named(counts.keys(), names)
    yield from unknown(root, counts.keys(), rest)
    yield from uncited(root, listed, in_names)
    yield from of_the_paper(page, counts.keys(), names)
    yield from backward.faults(root)


if __name__ == "__main__":
    sys.exit("\n".join(faults(Path(__file__).resolve().parents[2])) or None)
