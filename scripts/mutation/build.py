"""Compiles one changed file and links it with the objects of a finished build, which stays untouched.

A changed source is compiled with the build's own command. The compiler finds a changed header because the folder of its
copy comes first in the include path. A program is linked with the build's own command, with the changed objects in
front. They define the same symbols as the libraries' own objects, so the linker does not use those."""
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path


class BuildTree:
    def __init__(self, root, build):
        self.root, self.build = Path(root), Path(build)
        self.sanitized = re.search(r"^FOLDGRAD_SANITIZE:\w+=\w", (self.build / "CMakeCache.txt").read_text(), re.M)
        self.commands = {}  # object -> the command that compiles it
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            tokens = shlex.split(entry["command"])
            self.commands[tokens[tokens.index("-o") + 1]] = tokens
        self.dependents = {}  # source or header in the tree -> the objects that depend on it
        self.main_source = {}
        for block in self._ninja("-t", "deps").split("\n\n"):
            lines = block.strip().split("\n")
            if ": #deps" not in lines[0]:
                continue
            target = lines[0].split(": #deps")[0]
            if target not in self.commands:
                continue
            for line in lines[1:]:
                path = self._below_root(line.strip())
                if path:
                    self.dependents.setdefault(path, []).append(target)
        for target, tokens in self.commands.items():
            self.main_source[target] = self._below_root(tokens[-1]) or tokens[-1]
        self.links, self.archives = {}, {}
        self.linker = ["-fuse-ld=lld"] if shutil.which("ld.lld") else []

    def _ninja(self, *arguments):
        command = ["ninja", "-C", self.build, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _below_root(self, path):
        p = (self.build / path).resolve()
        inside = p.is_relative_to(self.root) and not p.is_relative_to(self.build)
        return str(p.relative_to(self.root)) if inside else None

    def compile(self, target, mutant_path, overlay, out):
        """Compiles the object `target` with `overlay`'s copy in place of `mutant_path`. Returns False if that fails."""
        tokens = list(self.commands[target])
        source = tokens[-1]
        if self.main_source[target] == mutant_path:
            source = str(overlay / mutant_path)
        elif mutant_path.endswith((".cpp", ".cu")):  # several sources are compiled as one
            joined = Path(source).read_text().replace(str(self.root / mutant_path), str(overlay / mutant_path))
            source = str(overlay / Path(source).name)
            Path(source).write_text(joined)
        tokens[-1] = source
        tokens[tokens.index("-o") + 1] = str(out)
        tokens[1:1] = ["-I" + str(overlay)]
        tokens[-2:-2] = ["-w", f"-fmacro-prefix-map={overlay}={self.root}"]
        return subprocess.run(tokens, cwd=self.build, capture_output=True, timeout=600).returncode == 0

    def same_object(self, target, out):
        return (self.build / target).read_bytes() == out.read_bytes()

    def _link_tokens(self, program):
        if program not in self.links:
            line = self._ninja("-t", "commands", "-s", program).strip().split("\n")[-1]
            parts = shlex.split(line.removeprefix("ninja: Entering directory"))
            cut = [i for i, t in enumerate(parts) if t == "&&"]
            self.links[program] = parts[cut[0] + 1:cut[1]]
        return self.links[program]

    def _members(self, archive):
        if archive not in self.archives:
            self.archives[archive] = set(shlex.split(self._ninja("-t", "commands", "-s", archive)))
        return self.archives[archive]

    def objects_in(self, program):
        """Returns the objects that can become part of the program: its own objects and those of its libraries."""
        tokens = self._link_tokens(program)
        found = {t for t in tokens if t.endswith(".o")}
        for t in tokens:
            if t.endswith(".a") and not t.startswith(("/", "-")):
                found |= self._members(t)
        return found

    def link(self, program, changed, out):
        """Links `program` with the objects of `changed`, {object: changed object}, in place of its own."""
        tokens = [str(changed.get(t, t)) for t in self._link_tokens(program)]
        front = [str(o) for target, o in changed.items() if str(o) not in tokens]
        at = tokens.index("-o")
        tokens[at + 1] = str(out)
        tokens[at:at] = front + self.linker + ["-Wl,-z,muldefs"]
        return subprocess.run(tokens, cwd=self.build, capture_output=True, timeout=600).returncode == 0
