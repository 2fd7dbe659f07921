"""Finds the tests that can reach a source file, the nearest first, by following #include from tests to implementations.
"""
import heapq
import re
from pathlib import Path

FOLDERS = ("engine", "ops", "models", "train")
PROGRAM = {"train/main.cpp", "train/families.cpp"}  # the program's sources that do not implement a header next to them
_INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.M)


def _program(path):
    """Returns the name of a test as in cmake/FoldgradTests.cmake: fold_graph_test for tests/models/fold/graph_test.cpp,
    python.a_test for tests/python/a_test.py."""
    _, *folders, name = Path(path).with_suffix("").parts
    if Path(path).suffix == ".py":
        return f"python.{name}"
    return name if len(folders) < 2 or name.startswith(folders[-1] + "_") else f"{folders[-1]}_{name}"


class Covering:
    def __init__(self, root):
        self.root = Path(root)
        sources = [p for folder in (*FOLDERS, "emulation", "tests") for p in (self.root / folder).rglob("*")
                   if p.suffix in (".h", ".cpp", ".cu")]
        self.includes = {}
        for p in sources:
            text = p.read_text()
            found = set(_INCLUDE.findall(text))
            if "FOLDGRAD_PROGRAM" in text:
                found |= PROGRAM
            self.includes[str(p.relative_to(self.root))] = found
        for folder in ("python", "readme"):
            for p in (self.root / "tests" / folder).glob("*_test.py"):
                if "PROGRAM" in p.read_text():
                    self.includes[str(p.relative_to(self.root))] = set(PROGRAM)
        self.implementers = {}  # header -> [(source next to it that includes it, number of headers in between)]
        for path in self.includes:
            if path.endswith((".cpp", ".cu")):
                for header, through in self._beside(path).items():
                    self.implementers.setdefault(header, []).append((path, through))
        self.tests = {_program(p): p for p in self.includes
                      if p.endswith(("_test.cpp", "_test.py")) and not p.startswith("tests/realdata")}
        self.distances = {name: self._distances(p) for name, p in self.tests.items()}

    def _beside(self, path):
        """Returns {header: number of headers in between} for the headers that `path` includes from its folder and the
        two folders above."""
        folders = Path(path).parents[:3]
        found, layer = {}, [path]
        while layer:
            includes = {h for p in layer for h in self.includes.get(p, ()) if Path(h).parent in folders}
            layer = [h for h in includes if h not in found and h in self.includes]
            depth = max(found.values(), default=-1) + 1
            found.update({h: depth for h in layer})
        return found

    def _distances(self, start):
        """Returns {file: distance from `start`}. An include counts 1. The step from a header to a source
        that implements it counts 0 if their names are equal, otherwise 1 plus the number of headers in between."""
        distance, heap = {start: 0}, [(0, start)]
        while heap:
            d, path = heapq.heappop(heap)
            if d > distance[path]:
                continue
            steps = [(p, 1) for p in self.includes.get(path, ()) if p in self.includes]
            steps += [(p, 0 if Path(p).stem == Path(path).stem else 1 + n) for p, n in self.implementers.get(path, ())]
            for to, cost in steps:
                if d + cost < distance.get(to, 1 << 30):
                    distance[to] = d + cost
                    heapq.heappush(heap, (d + cost, to))
        return distance

    def tests_of(self, path):
        """Returns [(distance, test)], the nearest first."""
        return sorted((d[path], name) for name, d in self.distances.items() if path in d)

    def script(self, test):
        """Returns the path of a Python test, or None for other tests, which have separate programs."""
        return self.tests[test] if test.startswith("python.") else None

    def runs_program(self, test):
        return "train/main.cpp" in self.distances[test]
