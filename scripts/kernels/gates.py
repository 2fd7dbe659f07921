"""Reads the compiler's description of kernels and the table of requirements, and compares them."""
import re
import subprocess
from dataclasses import dataclass

KINDS = ("registers", "must", "mustnot")
ARCHITECTURE = "sm_90a"


@dataclass
class Kernel:
    name: str  # "FILE: readable name", which the patterns of the table must match
    registers: int
    stack: int
    spills: int  # number of bytes stored and loaded
    ptx: str


@dataclass
class Row:
    line: int
    kind: str
    value: str  # a number of registers, or a pattern for instructions
    kernels: str  # a pattern for names of kernels

    def fits(self, kernel):
        return re.search(self.kernels, kernel.name) is not None


def read_table(path):
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split("#")[0].split(maxsplit=2)
        if not words:
            continue
        if len(words) != 3 or words[0] not in KINDS or (words[0] == "registers" and not words[1].isdigit()):
            raise SystemExit(f"{path}:{number}: a row must be {' or '.join(KINDS)}, a value and a pattern, got: {line}")
        rows.append(Row(number, words[0], words[1], words[2].strip()))
    return rows


def _demangled(names):
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return dict(zip(names, done.stdout.splitlines()))


def _bodies(ptx):
    """Returns {mangled name: instructions of the kernel}."""
    ptx = re.sub(r"^\s*\.(file|loc)\b.*$", "", ptx, flags=re.M)  # -lineinfo adds the names of source files
    parts = re.split(r"^(?:\.(?:visible|weak|extern) )*\.(entry|func)\b", ptx, flags=re.M)
    bodies = {}
    for kind, text in zip(parts[1::2], parts[2::2]):
        if kind == "entry":
            bodies[re.match(r"\s*([\w$]+)", text).group(1)] = text
    return bodies


def kernels_of(source, ptxas, ptx):
    """Returns the kernels of a source file, given its PTX and the output of `ptxas -v`, which may also describe other
    architectures."""
    bodies, kernels = _bodies(ptx), []
    entries = re.split(rf"Compiling entry function '([\w$]+)' for '{ARCHITECTURE}'", ptxas)
    readable = _demangled(entries[1::2])
    for mangled, text in zip(entries[1::2], entries[2::2]):
        stack, stores, loads = map(int, re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", text).groups())
        registers = int(re.search(r"Used (\d+) registers", text).group(1))
        name = readable[mangled].replace("foldgrad::", "").replace("(anonymous namespace)::", "")
        kernels.append(Kernel(f"{source}: {name}", registers, stack, stores + loads, bodies[mangled]))
    return kernels


def described(kernel):
    accesses = sorted(set(re.findall(r"\b(?:ld|st)\.global[\w.:]*|\bmma\.[\w.]+|\bcp\.async[\w.]*", kernel.ptx)))
    return f"{kernel.registers:4} registers  {kernel.name}  {' '.join(accesses)}"


def violations(kernels, rows):
    """Returns a message for each requirement that a kernel violates."""
    broken = []
    for kernel in kernels:
        if kernel.stack:
            broken.append(f"{kernel.name} has a stack frame of {kernel.stack} bytes: an array is indexed at run time")
        if kernel.spills:
            broken.append(f"{kernel.name} spills {kernel.spills} bytes of registers")
        limit = next((row for row in rows if row.kind == "registers" and row.fits(kernel)), None)
        if limit is None:
            broken.append(f"{kernel.name} matches no `registers` row")
        elif kernel.registers > int(limit.value):
            broken.append(f"{kernel.name} uses {kernel.registers} registers, more than the {limit.value} that line "
                          f"{limit.line} allows")
        for row in rows:
            if row.kind == "registers" or not row.fits(kernel):
                continue
            found = re.search(row.value, kernel.ptx)
            if row.kind == "must" and not found:
                broken.append(f"{kernel.name} lacks {row.value}, which line {row.line} requires")
            if row.kind == "mustnot" and found:
                broken.append(f"{kernel.name} has {found.group(0)}, which line {row.line} forbids")
    return broken


def idle_rows(kernels, rows):
    return [f"line {row.line} of the table matches no kernel: {row.kernels}" for row in rows
            if not any(row.fits(kernel) for kernel in kernels)]
