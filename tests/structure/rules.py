"""The rules of the tree: which folders and libraries a folder may include, how long files and functions may be, and how
many files a folder may have. A permission that nothing uses is a violation too."""
import collections
import re

# A folder may include itself and the folders in its row. The rows of these folders must come before its own row, so
# there are no cycles. "ops" means every operation. Fast kernels may include everything that their operation may
# include. OPS says which operations may include others.
ALLOWED = {
    "engine": [],
    "emulation": [],
    "engine/cpu": ["engine"],
    "engine/cuda/runtime": ["engine", "engine/cpu", "emulation"],
    "engine/cuda": ["engine", "engine/cpu", "engine/cuda/runtime", "emulation"],
    "engine/cuda/fast": ["engine/cuda"],
    "engine/files": ["engine"],
    "engine/parallel": ["engine", "engine/cpu"],
    "engine/parallel/mpi": ["engine/parallel"],
    "engine/parallel/zmq": ["engine/parallel"],
    "engine/parallel/nccl": ["engine", "engine/parallel", "engine/cuda/runtime"],
    "engine/gemm": ["engine", "engine/cpu", "engine/cuda", "engine/cuda/runtime"],
    "engine/graph": ["engine"],
    "book/ladder": ["engine", "engine/cuda"],
    "book/ladder/cpu": ["engine", "engine/cpu", "engine/gemm", "book/ladder"],
    "ops": ["engine", "engine/parallel", "engine/graph", "engine/cpu", "engine/cuda", "engine/cuda/runtime",
            "engine/gemm"],
    "ops/*/fast": ["engine/cuda/fast"],
    "models/options": ["engine"],
    "models/normalizers": ["engine", "engine/graph", "ops", "models/options"],
    "models": ["engine", "ops", "models/normalizers"],
    "models/blocks": ["engine", "engine/cpu", "ops", "models", "models/options", "models/normalizers"],
    "models/fold": ["engine", "engine/graph", "models/options", "models", "models/blocks"],
    "models/onnx": ["engine", "engine/files", "engine/graph", "models", "models/normalizers"],
    "models/transformer": ["engine", "engine/files", "ops", "models", "models/blocks",
                           "models/fold", "models/onnx"],
    "models/images": ["engine", "ops", "models", "models/blocks", "models/fold", "models/onnx"],
    "models/vit": ["engine", "ops", "models/images"],
    "models/cct": ["engine", "ops", "models/normalizers", "models/images"],
    "models/t2t": ["engine", "ops", "models", "models/normalizers", "models/blocks", "models/images"],
    "models/swin": ["engine", "ops", "models/blocks", "models/normalizers", "models/images"],
    "models/convnext": ["engine", "ops", "models/normalizers", "models/blocks", "models/fold", "models/images"],
    "models/efficientnet_lite": ["engine", "ops", "models/blocks", "models/images"],
    "models/nfnet": ["engine", "ops", "models/normalizers", "models/blocks", "models/images"],
    "models/gpt": ["engine", "engine/files", "ops", "models", "models/blocks", "models/fold", "models/onnx"],
    "train/system": ["engine", "engine/cpu", "engine/files", "engine/parallel"],
    "train/data": ["engine/files", "train/system"],
    "train/loop/optimizer": ["engine", "engine/cpu", "engine/cuda"],
    "train/loop": ["engine", "engine/cpu", "engine/parallel", "ops", "models", "models/options", "train/loop/optimizer"],
    "train/config": ["engine", "engine/files", "models/options", "models/normalizers", "models", "models/blocks",
                     "train/loop", "train/system"],
    "train/checks": ["engine", "engine/files", "models/options", "models", "models/fold", "models/normalizers",
                     "train/system"],
    "train/tasks": ["engine", "engine/files", "models/options", "models/transformer", "train/checks", "train/config",
                    "train/data", "train/loop", "train/system"],
    "train/tasks/classification/images": ["engine", "engine/cpu", "engine/files", "ops", "train/data", "train/system"],
    "train/tasks/classification": ["engine", "engine/files", "engine/parallel", "models/images", "train/checks",
                                   "train/config", "train/data", "train/loop", "train/system", "train/tasks",
                                   "train/tasks/classification/images"],
    "train/tasks/translation": ["engine", "engine/files", "engine/parallel", "models/transformer", "train/checks",
                                "train/config", "train/data", "train/loop", "train/system", "train/tasks"],
    "train/tasks/language": ["engine", "engine/files", "engine/parallel", "models/transformer", "models/gpt",
                             "train/checks", "train/config", "train/data", "train/loop", "train/system", "train/tasks",
                             "train/tasks/translation"],
    "train/checkpoints": ["engine", "engine/files", "models", "train/checks", "train/system", "train/tasks"],
    "train/analyses": ["engine", "engine/cpu", "engine/files", "engine/graph", "ops", "models", "models/normalizers",
                       "train/loop"],
    "train/runs": ["engine", "engine/cpu", "engine/files", "engine/gemm", "engine/parallel", "train/analyses", "train/checkpoints",
                   "train/checks", "train/config", "train/data", "train/loop", "train/system", "train/tasks"],
    "train/reports": ["engine", "engine/files", "train/analyses", "train/config", "train/runs", "train/system"],
    "train/commands": ["engine", "engine/cpu", "engine/files", "engine/gemm", "engine/parallel", "models/fold", "models/options", "models/normalizers",
                       "models/transformer", "models/images", "models/gpt", "train/checkpoints",
                       "train/checks", "train/config", "train/data", "train/loop", "train/reports",
                       "train/runs", "train/system", "train/tasks", "train/tasks/classification",
                       "train/tasks/classification/images", "train/tasks/translation", "train/tasks/language"],
    "train": ["engine", "engine/cpu", "models/normalizers", "models/transformer", "models/vit", "models/cct", "models/t2t",
              "models/swin", "models/convnext", "models/efficientnet_lite", "models/nfnet", "models/gpt",
              "train/commands", "train/config", "train/runs", "train/system", "train/tasks/classification",
              "train/tasks/translation", "train/tasks/language"],
    "python/binding": ["engine", "engine/cpu", "engine/files", "engine/graph", "engine/parallel", "ops", "models",
                       "models/blocks", "models/fold", "models/gpt", "models/images", "models/normalizers",
                       "models/transformer", "train", "train/analyses", "train/checkpoints", "train/checks", "train/config", "train/loop",
                       "train/loop/optimizer", "train/reports", "train/runs", "train/system", "train/tasks",
                       "train/tasks/classification", "train/tasks/classification/images", "train/tasks/language",
                       "train/tasks/translation"],
}

# Operations that use others, in the form of ALLOWED. An operation that uses no other operation needs no row.
OPS = {
    "ops/activation": ["ops/dropout"],
    "ops/affine": ["ops/total"],
    "ops/arithmetic": ["ops/total"],
    "ops/attention": ["ops/dropout", "ops/segments", "ops/total"],
    "ops/channel_norm": ["ops/channel_sums"],
    "ops/concat": ["ops/permute"],
    "ops/group_norm": ["ops/segments"],
    "ops/linear": ["ops/activation", "ops/total"],
    "ops/conv2d": ["ops/activation", "ops/linear", "ops/reshape", "ops/total"],
    "ops/dyt": ["ops/total"],
    "ops/positions": ["ops/total"],
    "ops/power_norm": ["ops/channel_norm", "ops/channel_sums", "ops/reshape", "ops/rms_norm"],
    "ops/rbn_penalty": ["ops/channel_norm"],
    "ops/scale_norm": ["ops/total"],
    "ops/watch_channels": ["ops/channel_norm"],
}

# The folders that may include a library. The key is the beginning of the names of the library's headers. "train/*"
# means train and all folders below it.
LIBRARIES = {
    "fmt/": ["engine/*", "ops/*", "models/*", "train/*", "python/*"],
    "nanobind/": ["python/*"],
    "nlohmann/": ["engine/files", "models/transformer", "models/gpt", "train/*"],
    "toml++/": ["train/config", "train/reports"],
    "CLI/": ["train", "train/commands"],
    "openssl/": ["train/system", "train/runs"],
    "sentencepiece_": ["train/tasks/translation"],
    "png.h": ["train/tasks/classification/images"],
    "turbojpeg.h": ["train/tasks/classification/images"],
    "oneapi/dnnl/": ["engine/gemm", "train/runs"],
    "cblas.h": ["engine/gemm", "train/runs"],
    "cublasLt.h": ["engine/gemm"],
    "cudnn.h": ["ops/conv2d"],
    "cuda_runtime.h": ["engine/cuda/runtime"],
    "mpi.h": ["engine/parallel/mpi"],
    "zmq.h": ["engine/parallel/zmq"],
    "nccl.h": ["engine/parallel/nccl"],
    "dlfcn.h": ["emulation", "engine/parallel"],
    "netdb.h": ["engine/parallel/zmq"],
    "omp.h": ["engine/gemm"],
    "immintrin.h": ["engine/cpu"],
    "cpuid.h": ["engine/gemm"],
    "sanitizer/": ["emulation"],
}
# Headers of the operating system. Only POSIX_FOLDERS may include them.
POSIX = re.compile(r"(sys/\w+|dirent|execinfo|fcntl|fnmatch|locale|poll|pthread|sched|setjmp|signal|std\w+|string|time|ucontext|"
                   r"unistd|wctype)\.h$")
POSIX_FOLDERS = ["emulation", "engine/cpu", "engine/files", "train/*"]

FILE_LINES, FUNCTION_LINES, CORE_LINES, FOLDER_FILES = 300, 60, 1540, 24
LONG_TABLES = {"visit_config", "kAttention"}  # functions with one line per item
LARGE_FOLDERS = {  # folders that may have more files, with the largest number and the reason
    "train/commands": 26,      # a file for each command
}


def folder_of(path):
    return path.rpartition("/")[0]


def rows_of(folder):
    """Returns the names of the rows of ALLOWED and OPS that apply to a folder."""
    operation = re.match(r"(ops/\w+)(/fast)?$", folder)
    if not operation:
        return [folder] if folder in ALLOWED else []
    return ["ops", operation[1]] + ["ops/*/fast"] * bool(operation[2])


def permission(folder, other):
    """Returns the (row, entry) that lets `folder` include `other`, or None."""
    for row in rows_of(folder):
        for entry in ALLOWED.get(row, []) + OPS.get(row, []):
            if entry == other or (entry == "ops" and re.match(r"ops/\w+$", other)):
                return row, entry
    return ("", "") if re.fullmatch(f"{re.escape(other)}/fast", folder) else None


def includes(files):
    """Yields (path, folder, header in brackets, file in quotes) of each include, except in tests."""
    for path, text in sorted(files.items()):
        if not path.startswith("tests/"):
            for brackets, quotes in re.findall(r'^[ \t]*#[ \t]*include (?:<([^>]+)>|"([^"]+)")', text, re.M):
                yield path, folder_of(path), brackets, quotes


def is_in(folder, folders):
    return any(f"{folder}/".startswith(f[:-1]) if f.endswith("*") else folder == f for f in folders)


def library_of(header):
    """Returns the row of LIBRARIES for a header, "" for a header of C++ itself, or None if there is no such row."""
    if not re.search(r"[/.]", header):
        return ""
    return next((library for library in LIBRARIES if header.startswith(library)), None)


def _blanked(text):
    """Returns the text without comments, directives and the contents of strings. Line numbers stay the same."""
    text = re.sub(r'R"(\w*)\((.*?)\)\1"', lambda m: '""' + "\n" * m.group(2).count("\n"), text, flags=re.S)
    text = re.sub(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'',
                  lambda m: "" if m.group(0).startswith("//") else '""', text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M)


FUNCTION_NAME = re.compile(r"([\w~]+|operator\W+)\s*\(")


def functions(text):
    """Returns [(name, first line, number of lines)] of all functions. A lambda is part of the function around it."""
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
                kind = "scope" if scope else "function" if FUNCTION_NAME.search(before) else "inside"
            stack.append((kind, before, line - before.lstrip().count("\n")))
        if c == "}" and stack:
            kind, before, first = stack.pop()
            if kind == "function":
                found.append((FUNCTION_NAME.search(before).group(1), first, line - first + 1))
        if not stack or stack[-1][0] == "scope" or c == "{":
            head = i + 1
    return found


def broken_order(table):
    for position, (folder, below) in enumerate(table.items()):
        for other in sorted(set(list(table)[position:]) & set(below)):
            yield f"the rules let {folder} include {other}, which comes after it"


def broken_sizes(files):
    for path, text in sorted(files.items()):
        lines = text.count("\n")
        if lines > FILE_LINES:
            yield f"{path} has {lines} lines, more than {FILE_LINES}"
        for name, first, length in functions(text):
            if length > FUNCTION_LINES and name not in LONG_TABLES:
                yield f"{path}:{first}: {name} has {length} lines, more than {FUNCTION_LINES}"
        if "/fast/" in path and path.endswith((".cpp", ".cu")) and not re.search(r"^// .*\bspeed-up\b", text, re.M):
            yield f"{path}: a fast kernel needs a comment with its speed-up, or that it has not been measured"
    core = sum(text.count("\n") for path, text in files.items() if folder_of(path) == "engine")
    if core > CORE_LINES:
        yield f"the core, the files of engine/ itself, has {core} lines, more than {CORE_LINES}"
    counts = collections.Counter(folder_of(path) for path in files if not path.startswith("tests/"))
    for folder, count in sorted(counts.items()):
        most = LARGE_FOLDERS.get(folder, FOLDER_FILES)
        if count > most:
            yield f"{folder} has {count} files, more than {most}"


def broken_includes(files):
    for path in sorted(files):
        folder = folder_of(path)
        if not path.startswith("tests/") and not rows_of(folder):
            yield f"{path}: tests/structure/rules.py does not know the folder {folder}"
    for path, folder, header, included in includes(files):
        other = folder_of(included)
        if included and other not in ("", folder) and rows_of(folder) and not permission(folder, other):
            yield f"{path} includes {included}: {folder} may not include {other}"
        if not header:
            continue
        library = library_of(header)
        if POSIX.match(header):
            if not is_in(folder, POSIX_FOLDERS):
                yield f"{path} includes <{header}>: {folder} may not use the operating system"
        elif library is None:
            yield f"{path} includes <{header}>: tests/structure/rules.py does not know the library"
        elif library and not is_in(folder, LIBRARIES[library]):
            yield f"{path} includes <{header}>: {folder} may not include that library"


def violations(files):
    """Returns a sentence for each violation of a rule. `files` is {path: text}."""
    return [*broken_order(ALLOWED), *broken_order(OPS), *broken_sizes(files), *broken_includes(files)]


def shortest_ring(edges):
    """Returns a shortest cycle of the graph {node: successors} as a list of nodes, which repeats the first node at its
    end. Returns [] if there is no cycle."""
    rings = []
    for start in sorted(edges):
        paths, seen = [[start]], set()
        for path in paths:
            for other in sorted(set(edges.get(path[-1], ())) - seen):
                seen.add(other)
                paths.append(path + [other])
        rings += [path for path in paths if len(path) > 1 and path[-1] == start][:1]
    return min(rings, key=len, default=[])


def rings(files):
    """Yields a sentence for a shortest ring of folders that include each other, at each depth of the tree. At depth 2,
    for example, the files of train/data/text belong to train/data. So there can be rings, although the order of ALLOWED
    prevents rings of single folders."""
    found = []
    for depth in range(1, 1 + max((path.count("/") for path in files), default=0)):
        edges = collections.defaultdict(dict)
        for path, folder, _, included in includes(files):
            here, there = ("/".join(f.split("/")[:depth]) for f in (folder, folder_of(included)))
            if there not in ("", here):
                edges[here].setdefault(there, f"{path} includes {included}")
        ring = shortest_ring(edges)
        if ring and ring not in found:
            found.append(ring)
            steps = ", ".join(edges[here][there] for here, there in zip(ring, ring[1:]))
            yield f"a ring of folders, {' -> '.join(ring)}: {steps}"


def unused(files):
    """Yields a sentence for each permission that nothing uses. `files` must be all files of the tree."""
    used = set()
    counts = collections.Counter(folder_of(path) for path in files)
    for _, folder, header, included in includes(files):
        if included and folder_of(included) != folder:
            used.add(permission(folder, folder_of(included)))
        for entry in LIBRARIES.get(library_of(header) if header else "", []):
            if is_in(folder, [entry]):
                used.add((library_of(header), entry))
    for table in (ALLOWED, OPS):
        for folder, row in table.items():
            yield from (f"{folder} may include {other}, and does not" for other in row if (folder, other) not in used)
    for library, folders in LIBRARIES.items():
        yield from (f"{f} may include <{library}...>, and does not" for f in folders if (library, f) not in used)
    yield from (f"{folder} may have {most} files, and has {counts[folder]}" for folder, most in LARGE_FOLDERS.items()
                if counts[folder] <= FOLDER_FILES)
