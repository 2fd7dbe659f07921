"""The rules of the tree: which folder may include which, and how long files and functions may be."""
import re

# A folder may include itself and those that stand in its row, which must come before it: so there are no circles.
# ops/NAME counts as ops.
ALLOWED = {
    "engine": [],
    "emulation": [],
    "engine/cpu": ["engine"],
    "engine/cuda/runtime": ["engine", "engine/cpu", "emulation"],
    "engine/cuda": ["engine", "engine/cpu", "engine/cuda/runtime", "emulation"],
    "engine/cuda/fast": ["engine", "engine/cpu", "engine/cuda", "emulation"],
    "engine/files": ["engine"],
    "engine/gemm": ["engine", "engine/cpu", "engine/cuda", "engine/cuda/runtime"],
    "engine/graph": ["engine"],
    "ops": ["engine", "engine/graph", "engine/cpu", "engine/cuda", "engine/cuda/fast", "engine/cuda/runtime",
            "engine/gemm"],
    "models/options": [],
    "models/normalizers": ["engine", "engine/graph", "ops", "models/options"],
    "models": ["engine", "ops", "models/normalizers"],
    "models/blocks": ["engine", "ops", "models", "models/options", "models/normalizers"],
    "models/inference": ["engine", "engine/cpu", "ops", "models/normalizers", "models/blocks"],
    "models/fold": ["engine", "engine/graph", "ops", "models", "models/normalizers", "models/blocks"],
    "models/onnx": ["engine", "engine/files", "engine/graph", "models", "models/normalizers", "models/blocks"],
    "models/transformer": ["engine", "engine/cpu", "engine/files", "ops", "models", "models/options",
                           "models/normalizers", "models/blocks", "models/inference", "models/fold", "models/onnx"],
    "models/images": ["engine", "engine/files", "ops", "models", "models/normalizers", "models/blocks", "models/fold",
                      "models/onnx"],
    "models/vit": ["engine", "engine/graph", "ops", "models/images", "models/blocks"],
    "models/cct": ["engine", "engine/graph", "ops", "models/normalizers", "models/images", "models/blocks"],
    "train/system": ["engine", "engine/files"],
    "train/config": ["engine", "engine/files", "models/options", "models/normalizers", "models/transformer",
                     "models/images", "models/vit", "models/cct", "train/system"],
    "train/data": ["engine", "engine/files", "train/system"],
    "train/data/images": ["engine", "engine/files", "ops", "train/data", "train/system"],
    "train/data/text": ["engine", "engine/files", "models/transformer", "train/config", "train/data", "train/system"],
    "train/scores": ["engine", "train/system"],
    "train/loop/optimizer": ["engine", "engine/cuda"],
    "train/loop": ["engine", "ops", "models", "train/data", "train/loop/optimizer"],
    "train/checks": ["engine", "engine/files", "models", "models/fold", "models/normalizers", "train/system"],
    "train/tasks": ["engine", "engine/files", "models", "models/blocks", "models/fold", "models/options",
                    "models/normalizers", "models/transformer", "models/images", "models/vit", "models/cct",
                    "train/checks", "train/config",
                    "train/data/images", "train/data/text", "train/loop", "train/scores", "train/system"],
    "train/checkpoints": ["engine", "engine/files", "models", "train/checks", "train/loop/optimizer", "train/system",
                          "train/tasks"],
    "train/analyses": ["engine", "engine/files", "engine/graph", "engine/gemm", "ops", "models", "models/normalizers",
                       "train/loop"],
    "train/runs": ["engine", "engine/cpu", "engine/files", "engine/gemm", "models", "train/analyses",
                   "train/checkpoints", "train/checks", "train/config", "train/data", "train/loop", "train/system",
                   "train/tasks"],
    "train/reports": ["engine", "engine/files", "train/analyses", "train/runs", "train/system"],
    "train/commands": ["engine", "engine/files", "engine/gemm", "models", "models/fold", "models/options",
                       "models/normalizers", "models/onnx", "models/transformer", "train/checkpoints",
                       "train/analyses", "train/checks", "train/config",
                       "train/data", "train/data/images", "train/data/text", "train/loop", "train/reports",
                       "train/runs", "train/scores",
                       "train/system", "train/tasks"],
    "train": ["engine", "engine/cpu", "train/commands", "train/runs", "train/system"],
}

FILE_LINES, FUNCTION_LINES, CORE_LINES = 300, 60, 1800
LONG_TABLES = {"visit_config", "kAttention"}  # what lists things, a line each


def folder_of(path):
    folder = path.rpartition("/")[0]
    return "ops" if folder.startswith("ops/") else folder


def _blanked(text):
    """Without comments and with empty strings, line by line as before."""
    text = re.sub(r'R"(\w*)\((.*?)\)\1"', lambda m: '""' + "\n" * m.group(2).count("\n"), text, flags=re.S)
    text = re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'',
                  lambda m: "" if m.group(0).startswith("//") else '""', text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M)


def functions(text):
    """[(name, first line, number of lines)] of all functions, lambdas being part of theirs."""
    found, stack, head, line = [], [], 0, 1
    text = _blanked(text)
    for i, c in enumerate(text):
        if c == "\n":
            line += 1
        if c not in "{};":
            continue
        if c == "{":
            before = text[head:i]
            inside = bool(stack) and stack[-1][0] != "scope"
            kind = "inside"
            if not inside:
                start = re.sub(r"template <[^\n]*>\n", "", before).split("(")[0]
                scope = re.search(r"\b(namespace|struct|class|enum|union|extern)\b", start)
                kind = "scope" if scope else "function" if "(" in before else "inside"
            stack.append((kind, before, line - before.lstrip().count("\n")))
        if c == "}" and stack:
            kind, before, first = stack.pop()
            if kind == "function":
                found.append((re.search(r"([\w~]+|operator\W+)\s*\(", before).group(1), first, line - first + 1))
        if not stack or stack[-1][0] == "scope" or c == "{":
            head = i + 1
    return found


def violations(files):
    """Of `files`, {path: text}: a sentence for each rule that is broken."""
    broken = []
    for position, (folder, below) in enumerate(ALLOWED.items()):
        later = set(list(ALLOWED)[position:]) & set(below)
        broken += [f"the rules let {folder} include {other}, which comes after it" for other in sorted(later)]
    for path, text in sorted(files.items()):
        lines = text.count("\n")
        if lines > FILE_LINES:
            broken.append(f"{path} has {lines} lines, more than {FILE_LINES}")
        for name, first, length in functions(text):
            if length > FUNCTION_LINES and name not in LONG_TABLES:
                broken.append(f"{path}:{first}: {name} has {length} lines, more than {FUNCTION_LINES}")
        if "/fast/" in path and path.endswith((".cpp", ".cu")) and not re.search(r"^// .*\bGain: ", text, re.M):
            broken.append(f"{path}: a fast kernel needs a comment with its gain, machine and date, or \"not measured\"")
        folder = folder_of(path)
        if path.startswith("tests/"):
            continue
        if folder not in ALLOWED:
            broken.append(f"{path}: tests/structure/rules.py does not know the folder {folder}")
            continue
        for included in re.findall(r'^#include "([^"]+)"', text, re.M):
            other = folder_of(included)
            if other in ("", folder):
                continue
            if other not in ALLOWED[folder]:
                broken.append(f"{path} includes {included}: {folder} may not include {other}")
    core = sum(text.count("\n") for path, text in files.items() if folder_of(path) == "engine")
    if core > CORE_LINES:
        broken.append(f"the core, the files of engine/ itself, has {core} lines, more than {CORE_LINES}")
    return broken
