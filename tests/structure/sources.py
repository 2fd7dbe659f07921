"""Checks docs/sources.md. The page must list every table, figure, equation and model of the sources, and must not refer
to anything that does not exist in the tree."""
import glob
import itertools
import re

TABLES, FIGURES, EQUATIONS = 10, 7, 26  # their numbers in the UN paper
NAMES = ["Lemma 3.1", "Corollary 3.2", "Algorithm 1", "Algorithm 2", "IWSLT14", "WMT14", "ImageNet", "COCO", "CIFAR-10",
         "CIFAR-100", "TinyImageNet", "T2T-ViT-14", "Swin-T", "NFNet-F0", "ViT-S", "Faster R-CNN", "Mask R-CNN",
         "ConvNeXt", "MAE", "DINO", "DiT", "LLaMA", "wav2vec 2.0", "HyenaDNA", "Caduceus", "RMSNorm", "ScaleNorm",
         "FixNorm", "DeepNorm"]
FOLDERS = "bench|configs|docs|engine|examples|models|ops|python|scripts|tests|train"
MEASURED = re.compile(r"\]\(|not run|not tried|nothing to measure|by (its|their|the) tests?|\bas (tables? \d|\(\d)")
EQUATION = re.compile(r"\((\d+)\)(?:-\((\d+)\))?")
TAG = re.compile(r"\b[A-Z]+-\d+\b")


def rows(page):
    """Yields (column headings, cells) for each row of each table of a page."""
    header = None
    for line in page.split("\n"):
        if not line.startswith("|"):
            header = None
            continue
        cells = [cell.strip() for cell in line.strip("|\n").split("|")]
        if header is None:
            header = cells
        elif not set(cells[0]) <= set("-"):
            yield header, cells


def numbers(text):
    """Yields the numbers in a text: 3 and 4 for "3, 4", and 2 to 5 for "(2)-(5)"."""
    for first, last in re.findall(r"\(?(\d+)\)?(?:-\((\d+)\))?", text):
        yield from range(int(first), int(last or first) + 1)


def anchors(page):
    """Returns the anchors of a page, as GitHub derives them from its headings."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)", page, re.M)}


def expanded(path):
    """Expands braces as a shell does: a{b,c} becomes [ab, ac]."""
    parts = [part.strip("{}").split(",") for part in re.split(r"(\{[^}]*\})", path)]
    return ["".join(choice) for choice in itertools.product(*parts)]


def linked(text):
    return [(path, anchor) for path, anchor in re.findall(r"\]\(([^)\s#]*)#?([^)\s]*)\)", text) if "://" not in path]


def missing_numbers(paper):
    first_cells = [cells[0] for _, cells in rows(paper)]
    for kind, pattern, last in (("table", r"Tables? ([\d, ]+)$", TABLES), ("figure", r"Fig\. (\d+)$", FIGURES),
                                ("equation", rf"({EQUATION.pattern})$", EQUATIONS)):
        found = {n for cell in first_cells for match in [re.match(pattern, cell)] if match for n in numbers(match[1])}
        for n in sorted(set(range(1, last + 1)) ^ found):
            yield f"{kind} {n} of the paper " + ("has no row" if n <= last else "does not exist")


def equation_faults(paper, equations, read):
    """Yields a message for each difference between the page's equations and those of docs/equations.md, and for each
    tag that no file of its row cites."""
    there = {cells[0]: set(TAG.findall(cells[-1])) for _, cells in rows(equations) if EQUATION.fullmatch(cells[0])}
    here = {cells[0]: cells for _, cells in rows(paper) if EQUATION.fullmatch(cells[0])}
    if list(there) != list(here):
        yield f"equations are {', '.join(here)}, in docs/equations.md {', '.join(there)}"
    for name, cells in here.items():
        tags = set(TAG.findall(cells[1]))
        if tags != there.get(name, tags):
            yield f"{name} has {sorted(tags)}, in docs/equations.md {sorted(there[name])}"
        files = "".join(read(f"docs/{path}") for path, _ in linked(" ".join(cells[2:])))
        for tag in sorted(tags):
            if not re.search(rf"\[[^\]]*\b{tag}\b[^\]]*\]|\b{tag.replace('-', '_')}_", files):
                yield f"{name}: no file of its row cites [{tag}]"


def dangling(page, root, read):
    for path, anchor in linked(page):
        file = (root / "docs" / path).resolve()
        if not file.exists():
            yield f"the link {path} leads nowhere"
        elif anchor and anchor not in anchors(file.read_text()):
            yield f"{path} has no heading #{anchor}"
    keys = read("docs/training.md")
    norms = "".join(file.read_text() for file in (root / "models/normalizers").glob("*.cpp"))
    for code in re.findall(r"`([^`]+)`", page):
        if re.match(rf"({FOLDERS})/", code):
            yield from (f"{path} does not exist" for path in expanded(code) if not glob.glob(str(root / path)))
        elif command := re.match(r"foldgrad([ .])(\w+)(?:[ .](\w+))?", code):
            file = root / (f"train/commands/{command[2]}.cpp" if command[1] == " " else f"python/foldgrad/{command[2]}.py")
            if not file.exists() or command[3] and not re.search(rf"\b{command[3]}\b", file.read_text()):
                yield f"there is no command {code}"
        elif re.match(r"(model|data|train|norm)\.\w", code):
            key = code.split(" =")[0]
            option = re.match(r"norm\.\w+\.(\w+)$", key)
            if not (f'"{option[1]}"' in norms if option else f"| `{key}` |" in keys):
                yield f"there is no key {key}"


def faults(page, root):
    """Yields all faults of the page, as messages."""
    def read(path):
        file = root / path
        return file.read_text() if file.is_file() else ""

    equations = read("docs/equations.md")
    paper = page.split("\n## ")[1]
    yield from missing_numbers(paper)
    yield from equation_faults(paper, equations.split("\n## ")[1], read)
    for name in NAMES:
        if not re.search(rf"{re.escape(name)}\b", page):
            yield f"{name} is not named"
    for header, cells in rows(page):
        if header[-1] == "measured" and not MEASURED.search(cells[-1]):
            yield f"{cells[0]}: where it was measured, or why not, is missing"
    known = re.findall(r"^\| ([A-Z]+-\d+) \|", equations, re.M)
    cited = " ".join(re.findall(r"\[([A-Z]+-\d+(?:, [A-Z]+-\d+)*)\](?!\()", page))
    for tag in sorted(set(TAG.findall(cited)) - set(known)):
        yield f"docs/equations.md has no {tag}"
    yield from dangling(page, root, read)
