"""Generates docs/backward.md: every backward pass on one page. An operation's node says above backward() what it does:

    // Differentiates layer_norm [LN-1, LN-2, LN-3]: computes dx [LN-4], dgamma and dbeta [LN-5].

The formulas of these tags come from the comments in the operation's folder. A gradient is evaluated by the functions
whose code cites its tag. `scripts/house --write` writes the page, and the test `equations` checks that it is current.
"""
import re
from collections import namedtuple

import rules

TAG = r"[A-Z][A-Z0-9]*-[0-9A-Za-z.]*[0-9A-Za-z]"
GROUP = rf"\[{TAG}(?:, ?{TAG})*\]"
PAGE = "docs/backward.md"
HEAD = """# Every backward pass on one page

Each row is an operation with a gradient. dv means dL/dv for the loss L; dy is the gradient of the result. The header in
the operation's folder defines the symbols and shapes; [docs/derivations/](derivations/layer_norm.md) derives the
gradients, and [equations.md](equations.md) has the sources of the tags. The last column names the functions that
evaluate the gradients; fast kernels in `fast/` compute the same gradients.

`scripts/house --write` generates this page from the comments of nodes and headers. The test `equations` fails if the
page is not current, or if a node with a backward pass does not say what it differentiates.

| operation | forward | gradients | evaluated by |
|---|---|---|---|
"""
ACTIVATIONS = """
## Activations

Each activation is a struct in [activation_math.h](../ops/activation/activation_math.h). Its gradient is dx = dy y'
[ACT-7].

| activation | value and slope | evaluated by |
|---|---|---|
"""

Node = namedtuple("Node", "path name says")


def nodes(files):
    """Yields the nodes of the tape. `says` is the comment above backward() after "Differentiates ", or ""."""
    for path, text in files.items():
        for struct in re.finditer(r"^struct (\w+Node)\b.*?^};", text, re.M | re.S):
            found = re.search(r"((?:^ *//.*\n)*)^ *void backward\(NodeGrads& ", struct[0], re.M)
            if found:
                says = " ".join(line.strip().lstrip("/ ") for line in found[1].splitlines())
                yield Node(path, struct[1], says.partition("Differentiates ")[2])


def formulas(text):
    """Returns {tag: (formula, condition)} from comments "//   [TAG]  formula", which may take several lines."""
    found, tags, condition = {}, [], ""
    for line in text.splitlines():
        body = re.match(r"//(   +\[.*|   {4,}\S.*)?(.*)", line)
        if not body:
            break
        if not body[1]:
            tags = []
            if "backward" in body[2]:
                clause = re.search(r"backward[^,:]*, (with .*):$", body[2])
                condition = clause[1].replace("`", "") if clause else ""
            continue
        for part in re.split(rf"(?=\[{TAG}\])", body[1]):
            tag = re.match(rf"\[({TAG})\] *", part)
            if tag:
                tags = [tag[1]]
                found[tag[1]] = (part[tag.end():].strip(), condition)
            elif tags and part.strip():
                gap = "    " if re.match(r" *[A-Za-z]\S* *= ", part) else " "
                found[tags[0]] = (found[tags[0]][0] + gap + part.strip(), found[tags[0]][1])
    return found


def parts(formula):
    """Splits a formula into its statements, which wide spaces separate. Drops a name in front, such as "add:"."""
    formula = re.sub(r"^\w+(\(x\)|:) +|  \(\w+\)$|  \(\w+\)(?=  )", "", re.sub(r" +(\+?=) ", r" \1 ", formula))
    split = re.split(r" {3,}| +(?=d\w+ \+?= )", formula)
    return [re.sub(" +", " ", part.strip(" ,;")) for part in split if part.strip()]


def is_gradient(part):
    return re.match(r"d[A-Za-z]\w* (of|=|\+=)", part)


def place(path, text, at):
    """Returns a link, "Struct::function", to the function that contains line number `at`, or ""."""
    before = text.split("\n")[:at]
    struct = next((m[1] for line in reversed(before) for m in [re.match(r"(?:struct|class) (\w+)", line)] if m), "")
    name, first = next(((name, first) for name, first, lines in rules.functions(text) if first <= at < first + lines),
                       ("", 0))
    if not name:
        return ""
    if name == "__launch_bounds__":
        name = re.search(r"__launch_bounds__\(.*?\)\s+(\w+)\(", "\n".join(text.split("\n")[first - 1:]))[1]
    name = name.replace("operator", "operator()")
    inside = re.match(r"\s", before[-1]) and struct and re.search(
        rf"^struct {struct}\b(?:(?!^}};).)*{re.escape(before[-1])}", text, re.M | re.S)
    return f"[`{struct}::{name}`](../{path})" if inside else f"[`{name}`](../{path})"


def places(files, tag, both):
    """Returns links to the functions whose code cites a tag. `both` is true if the tag has both a forward and a
    backward formula; then only functions of backward passes are returned."""
    found = []
    for path, text in files.items():
        for at, line in enumerate(text.split("\n"), 1):
            code, _, comment = line.partition("//")
            if code.strip() and re.search(rf"\[[^\]]*\b{tag}\b", comment):
                found.append(place(path, text, at))
    found = [one for one in found if one]
    backward = [one for one in found if re.search("[Bb]ackward|Node|Gradient", one)]
    return backward if both else found


def code(tag, statements):
    text = "; ".join(statements)
    if not text:
        raise ValueError(f"the formula of [{tag}] has no such part")
    return "`" + text.replace("|", r"\|") + f"` [{tag}]"


def row(node, files):
    """Returns the row of a node. Raises a ValueError that names the missing part if there can be no row."""
    known = {}
    for path, text in files.items():
        if path.endswith(".h"):
            known.update(formulas(text))
    forward, _, backward = node.says.partition(":")
    first, second = (re.findall(TAG, " ".join(re.findall(GROUP, side))) for side in (forward, backward))
    for tag in [*first, *second]:
        if tag not in known:
            raise ValueError(f"no header of the folder has a formula for [{tag}]")
    values = [code(t, [p for p in parts(known[t][0]) if t not in second or not is_gradient(p)]) for t in first]
    gradients, conditions = [], []
    for tag in second:
        gradients.append(code(tag, [p for p in parts(known[tag][0]) if tag not in first or is_gradient(p)]))
        conditions.append(known[tag][1])
    condition = next((c for c in conditions if c), "")
    where = [one for tag in second for one in places(files, tag, tag in first)]
    names = ", ".join(f"`{name}`" for name in re.findall(r"\w+", re.sub(GROUP, "", forward)) if name != "and")
    gradient = "<br>".join(gradients) + (f"<br>`{condition}`" if condition else "")
    return (f"| {names} | {'<br>'.join(values) or 'the identity'} | {gradient or backward.strip(' .')} | "
            f"{'<br>'.join(dict.fromkeys(where)) or f'[`{node.name}`](../{node.path})'} |")


def activations(text):
    pattern = r"((?:^// .*\n)+)^struct (\w+) \{  // \[(ACT-\d+)\]"
    for comment, struct, tag in re.findall(pattern, text, re.M):
        says = " ".join(line.lstrip("/ ") for line in comment.splitlines())
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", struct).lower()
        yield f"| `{name}` | {code(tag, [says])} | [`{struct}`](../ops/activation/activation_math.h) |"


def page(root):
    """Returns the text of the page and a list of faults."""
    lines, faults = [], []
    for folder in sorted(path for path in (root / "ops").iterdir() if path.is_dir()):
        files = {str(path.relative_to(root)): path.read_text() for path in sorted(folder.iterdir())
                 if path.suffix in (".h", ".cpp", ".cu")}
        for node in nodes(files):
            try:
                if not node.says:
                    raise ValueError("say above backward() what it differentiates: "
                                     "// Differentiates NAME [TAG]: computes dx [TAG].")
                lines.append(row(node, files))
            except ValueError as error:
                faults.append(f"{node.path}: {node.name}: {error}")
    table = activations((root / "ops/activation/activation_math.h").read_text())
    return HEAD + "\n".join(lines) + "\n" + ACTIVATIONS + "\n".join(table) + "\n", faults


def faults(root):
    """Yields a message for each node that has no row, and one if the page is not current."""
    current, found = page(root)
    yield from found
    if not (root / PAGE).exists() or (root / PAGE).read_text() != current:
        yield f"{PAGE} is not current: run scripts/house --write"
