"""Tests that the order of a tape does not depend on the compiler. If several operations read a value, the tape's order
is the order in which their gradients are added, and another order gives other bits. C++ lets the compiler choose the
order in which it evaluates the arguments of a call, and GCC and Clang choose differently. So this test also compiles
the recording code with Clang, and compares both recordings.

    node_order_test.py BUILD PROGRAM      PROGRAM: BUILD's `recordings`, compiled by GCC
"""
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77


def records(path):
    """Returns True for sources that record operations: models, and operations that are composed of other operations."""
    if path.parts[0] == "models":
        return path.parts[1] not in ("fold", "inference", "onnx", "options")
    others = re.findall(r'#include "ops/(\w+)/\1\.h"', (ROOT / path).read_text())
    return path.parts[0] == "ops" and any(name != path.parts[1] for name in others)


def sources_of(file):
    """Returns the sources that a file of compile_commands.json compiles: the file itself, or those that a unity file
    includes."""
    return [Path(p) for p in re.findall('#include "(.+)"', file.read_text())] if file.parent.name == "Unity" else [file]


def clang_command(clang, entry, output):
    words = shlex.split(entry["command"])
    words = words[next(i for i, w in enumerate(words) if w.endswith(("c++", "g++"))) + 1:]
    kept, skip = [], 0
    for word in words:
        if skip:
            skip -= 1
        elif word in ("-include", "-o", "-MT", "-MF"):
            skip = 1
        elif not word.startswith(("-O", "-W", "-fopenmp", "-MD", "-m", "-fno-trapping")):
            kept.append(word)
    return [clang, "-O0", "-w", *kept, "-o", str(output)]


def main(build, program):
    clang = shutil.which("clang++")
    if not clang:
        print("clang++ is not installed")
        return SKIPPED
    entries = {Path(e["file"]): e for e in json.loads((build / "compile_commands.json").read_text())}
    driver = Path(__file__).with_name("recordings.cpp")
    recording = {f: [s for s in sources_of(f) if s.is_relative_to(ROOT) and not s.is_relative_to(build) and
                     (s == driver or records(s.relative_to(ROOT)))] for f in entries}
    wanted = [f for f in entries if recording[f]]
    sources = sum(map(len, recording.values()))
    link = subprocess.run(["ninja", "-C", build, "-t", "commands", "-s", "recordings"], check=True,
                          capture_output=True, text=True).stdout.strip().splitlines()[-1]
    with tempfile.TemporaryDirectory() as folder:
        objects = [Path(folder) / f"{i}.o" for i in range(len(wanted))]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda pair: subprocess.run(clang_command(clang, entries[pair[0]], pair[1]), check=True,
                                                      cwd=build), zip(wanted, objects)))
        own = re.search(r"\S*recordings\.cpp\.o", link).group()
        # For an inline function that Clang did not emit, the linker may still take an object of GCC from a library. If
        # a symbol has several definitions, the linker uses the first one, which is Clang's. We do not use mold, since
        # it would also link objects that nothing needs any more.
        first = " ".join(["-Wl,--allow-multiple-definition", *map(str, objects)])
        link = link.replace("-fuse-ld=mold", "").replace(own, first)
        link = link.replace("-o recordings", f"-o {folder}/recordings")
        subprocess.run(link, shell=True, check=True, cwd=build)
        here, there = (subprocess.run([p], check=True, capture_output=True, text=True).stdout.splitlines()
                       for p in (program, f"{folder}/recordings"))
    print(f"{sources} sources, {len(here)} nodes")
    if sources < 20 or len(here) < 1000:
        sys.exit("too few: the test no longer finds the sources that record operations")
    for a, b in zip(here, there):
        if a != b:
            sys.exit(f"GCC records   {a}\nClang records {b}")
    return 0 if len(here) == len(there) else "one compiler's program records more nodes"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
