"""Reads the equivalent mutants from equivalent.txt. An entry has three lines, and entries are separated by blank lines:

    PATH: the reason
    -the unchanged line
    +the changed line, or * for all changes of this line
"""
from pathlib import Path

from mutation.changes import mutants_of

FILE = "scripts/mutation/equivalent.txt"


class Known:
    def __init__(self, entries):
        self.entries = entries  # {(path, before, after)}

    def has(self, mutant):
        before, after = mutant.before.strip(), mutant.after.strip()
        return (mutant.path, before, after) in self.entries or (mutant.path, before, "*") in self.entries

    def keys(self, mutants):
        return {m.key for m in mutants if self.has(m)}


def read(root):
    """Returns the listed mutants. Ends the program if an entry no longer matches the code."""
    entries, by_path = set(), {}
    for number, block in enumerate((Path(root) / FILE).read_text().strip().split("\n\n"), 1):
        if not block:
            continue
        lines = block.split("\n")
        path, _, reason = lines[0].partition(": ")
        if len(lines) != 3 or not reason or lines[1][0] != "-" or lines[2][0] != "+":
            raise SystemExit(f"{FILE}: entry {number} must be `PATH: REASON`, `-LINE`, `+LINE`; got:\n{block}")
        entry = (path, lines[1][1:], lines[2][1:])
        if path not in by_path:
            source = Path(root) / path
            mutants = mutants_of(path, source.read_text()) if source.exists() else []
            by_path[path] = {(path, m.before.strip(), a) for m in mutants for a in (m.after.strip(), "*")}
        if entry not in by_path[path]:
            raise SystemExit(f"{FILE}: entry {number} is out of date; {path} has no such line or change:\n{block}")
        entries.add(entry)
    return Known(entries)
