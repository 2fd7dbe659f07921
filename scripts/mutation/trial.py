"""Tries one mutant: compiles it, and then links and runs the tests that can reach it, until one fails."""
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
from pathlib import Path

KILLED, SURVIVED, EQUIVALENT = "killed", "survived", "equivalent"
NOT_COMPILED, NOT_LINKED, SAME_OBJECT, NOT_BUILT = "not compiled", "not linked", "same object", "not built"
_MOST_OBJECTS = 6  # maximum number of objects recompiled for a header; the nearest to the test are chosen
_SKIPPED = 77  # exit code of Python tests that lack a package
_SECONDS = 60  # CPU time limit of a test program; a test that takes longer without a change is left out
_MEMORY = 24 << 30  # limit of the address space, or of memory in use under sanitizers, which reserve terabytes
_WALL = 4  # limit of the wall-clock time, relative to the CPU time, since the machine may be busy


def _limits():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells make background jobs ignore SIGINT
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))


def _limits_and_addresses():
    _limits()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def _named(word, by):
    return by == word or (len(word) > 3 and by.startswith(word))


class Tester:
    """Runs test programs, and remembers the tests that fail without a change."""

    def __init__(self, tree, covering, work, cases):
        self.tree, self.covering, self.work = tree, covering, Path(work)
        self.limits = _limits if tree.sanitized else _limits_and_addresses
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive",
                            "RC_PARAMS": f"seed=1 max_success={cases}", "GTEST_FAIL_FAST": "1",
                            "FOLDGRAD_SOURCE_DIR": str(tree.root), "FOLDGRAD_PROGRAM": str(tree.build / "foldgrad"),
                            "ASAN_OPTIONS": f"detect_leaks=1:strict_string_checks=1:hard_rss_limit_mb={_MEMORY >> 20}"}
        self.sound, self.locks, self.lock = {}, {}, threading.Lock()
        self.red = set()  # the tests that fail without a change
        self.seconds = {}  # test program -> CPU time when it last passed
        self.kills = {}  # (path, test) -> number of mutants killed

    def build(self, test, changed, folder):
        """Returns the command that runs `test` with the objects of `changed`, {object: changed object}, or None if the
        test cannot be linked."""
        script = self.covering.script(test)
        if script:
            return ["sh", str(self.tree.root / "tests" / "python" / "run.sh"), str(self.tree.root / script)]
        return [folder / test] if self.tree.link(test, changed, folder / test) else None

    def run(self, command, folder, foldgrad=None, only="*"):
        """Returns a name and the CPU time in seconds. The name is "" if all tests passed. Otherwise it is that of the
        first test that failed, or else of the last test that began, or else the exit code."""
        environment = {**self.environment, "TMPDIR": str(folder), "GTEST_FILTER": only}
        if foldgrad:
            environment["FOLDGRAD_PROGRAM"] = str(foldgrad)
        log = folder / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=self.tree.root, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, preexec_fn=self.limits, start_new_session=True)
        clock = threading.Timer(_WALL * _SECONDS, os.killpg, (process.pid, signal.SIGKILL))
        clock.start()
        _, status, usage = os.wait4(process.pid, 0)
        clock.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = usage.ru_utime + usage.ru_stime
        if process.returncode in (0, _SKIPPED):
            return "", seconds
        text = log.read_text(errors="replace")
        failed = re.findall(r"^\[  FAILED  \] ([^\s,]+)", text, re.M)
        last = re.findall(r"^\[ RUN      \] (\S+)", text, re.M)
        return (failed or last[-1:] or [f"exit code {process.returncode}"])[0], seconds

    def passes_unchanged(self, test, failed):
        """True if the failed test passes without a change. If `failed` is NOT_LINKED, True if the program links."""
        only = failed if "." in failed or failed == NOT_LINKED else "*"
        with self.lock:
            lock = self.locks.setdefault((test, only), threading.Lock())
        with lock:
            if (test, only) not in self.sound:
                folder = self.work / "unchanged" / f"{test}-{threading.get_ident()}"
                folder.mkdir(parents=True, exist_ok=True)
                why = "cannot be linked"
                command = self.build(test, {}, folder)
                if command:
                    why = "" if failed == NOT_LINKED else self.run(command, folder, only=only)[0]
                shutil.rmtree(folder)
                self.sound[test, only] = not why
                if why:
                    self.red.add(f"{test} {only}: {why}")
            return self.sound[test, only]

    def order(self, path):
        """Returns the tests of a file in the order in which to try them: first those that have killed mutants of the
        file, then the nearest ones, with preference for tests whose names resemble the file's."""
        words = set(re.split(r"[/_.]", path)) - {"cpp", "cu", "h", "test"}

        def rank(entry):
            distance, test = entry
            named = sum(any(_named(w, t) for t in re.split("[._]", test)) for w in words)
            return -self.kills.get((path, test), 0), distance - 2 * named, self.seconds.get(test) or 0, test
        return [test for _, test in sorted(self.covering.tests_of(path), key=rank)]


class Trial:
    def __init__(self, tester, folder):
        self.tester, self.tree, self.folder = tester, tester.tree, Path(folder)

    def _compile(self, mutant, targets):
        """Compiles the targets and adds them to self.changed, {object: changed object}, or to self.same. Returns None,
        or NOT_COMPILED if a target fails."""
        overlay = self.folder / "overlay"
        for target in targets:
            if target in self.changed or target in self.same:
                continue
            out = self.folder / "objects" / target.replace("/", "_")
            if not self.tree.compile(target, mutant.path, overlay, out):
                return NOT_COMPILED
            if self.tree.same_object(target, out):
                self.same.add(target)
            else:
                self.changed[target] = out
        return None

    def run(self, mutant, budget):
        """Tries a mutant. Returns the outcome, "TEST: WHY" if the mutant was killed (otherwise ""), and the tests that
        ran."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("objects", "tmp"):
            (self.folder / name).mkdir(parents=True)
        copy = self.folder / "overlay" / mutant.path
        copy.parent.mkdir(parents=True)
        copy.write_text(mutant.apply((self.tree.root / mutant.path).read_text()))
        self.changed, self.same = {}, set()
        dependents = self.tree.dependents.get(mutant.path, [])
        if not dependents:
            return NOT_BUILT, "", []
        if len(dependents) <= 2:  # shows without building a test whether the mutant compiles
            outcome = self._compile(mutant, dependents)
            if outcome or not self.changed:
                return outcome or SAME_OBJECT, "", []
        ran, spent, differs = [], 0, False
        for test in self.tester.order(mutant.path):
            if len(ran) >= 2 and spent + self.tester.seconds.get(test, 0) > budget:
                continue
            outcome, why, seconds = self._with(test, mutant, dependents)
            if outcome == NOT_COMPILED:
                return NOT_COMPILED, "", ran
            if outcome == SAME_OBJECT:
                continue
            differs = True
            if outcome in (KILLED, NOT_LINKED) and not self.tester.passes_unchanged(test, why):
                continue
            if outcome == NOT_LINKED:
                return NOT_COMPILED, "", ran
            ran.append(test)
            spent += seconds + 1  # linking takes about a second
            if outcome == KILLED:
                with self.tester.lock:
                    self.tester.kills[mutant.path, test] = self.tester.kills.get((mutant.path, test), 0) + 1
                return KILLED, f"{test}: {why}", ran
            self.tester.seconds[test] = seconds
        return (SURVIVED if differs else NOT_BUILT if self.changed else SAME_OBJECT), "", ran

    def _with(self, test, mutant, dependents):
        covering = self.tester.covering
        own = set() if covering.script(test) else self.tree.objects_in(test)
        in_program = self.tree.objects_in("foldgrad") if covering.runs_program(test) else set()
        linked = own | in_program
        distances = covering.distances[test]
        nearest = sorted(dependents, key=lambda o: distances.get(self.tree.main_source[o], 1 << 30))
        wanted = [o for o in nearest if o in linked][:_MOST_OBJECTS]
        if self._compile(mutant, wanted):
            return NOT_COMPILED, "", 0
        changed = {o: self.changed[o] for o in wanted if o in self.changed}
        if not changed:
            return SAME_OBJECT, "", 0
        foldgrad = self.folder / "foldgrad" if in_program else None
        if foldgrad:
            if not self.tree.link("foldgrad", {o: c for o, c in changed.items() if o in in_program}, foldgrad):
                return NOT_LINKED, NOT_LINKED, 0
        command = self.tester.build(test, {o: c for o, c in changed.items() if o in own}, self.folder)
        if not command:
            return NOT_LINKED, NOT_LINKED, 0
        why, seconds = self.tester.run(command, self.folder / "tmp", foldgrad)
        (self.folder / test).unlink(missing_ok=True)
        return (KILLED if why else SURVIVED), why, seconds
