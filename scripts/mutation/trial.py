"""Tries one mutant: compiles it, then links and runs the tests that can reach it until one fails."""
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
_MOST_OBJECTS = 6  # recompiled for a header that more include: those nearest to the test
_SKIPPED = 77  # exit code of Python tests that lack a package
_SECONDS = 60  # of a core, for one test program; one that takes more without a change is left out
_MEMORY = 24 << 30  # of addresses; sanitizers, which reserve terabytes, count memory in use
_WALL = 4  # times as long on the clock, for machines that are busy


def _limits():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which shells ignore for background jobs
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))


def _limits_and_addresses():
    _limits()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def _named(word, by):
    return by == word or (len(word) > 3 and by.startswith(word))


class Tester:
    """Runs test programs, and knows which tests fail without a change."""

    def __init__(self, tree, covering, work, cases):
        self.tree, self.covering, self.work = tree, covering, Path(work)
        self.limits = _limits if tree.sanitized else _limits_and_addresses
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive",
                            "RC_PARAMS": f"seed=1 max_success={cases}", "GTEST_FAIL_FAST": "1",
                            "FOLDGRAD_SOURCE_DIR": str(tree.root), "FOLDGRAD_PROGRAM": str(tree.build / "foldgrad"),
                            "ASAN_OPTIONS": f"detect_leaks=1:strict_string_checks=1:hard_rss_limit_mb={_MEMORY >> 20}"}
        self.sound, self.locks, self.lock = {}, {}, threading.Lock()
        self.red = set()  # those that fail without a change
        self.seconds = {}  # of a test program, when it last passed
        self.kills = {}  # (path, test) -> how often

    def build(self, test, changed, folder):
        """Returns the command that runs `test` with the objects of `changed`, {object: changed object}; None if it
        cannot be linked."""
        script = self.covering.script(test)
        if script:
            return ["sh", str(self.tree.root / "tests" / "python" / "run.sh"), str(self.tree.root / script)]
        return [folder / test] if self.tree.link(test, changed, folder / test) else None

    def run(self, command, folder, foldgrad=None, only="*"):
        """Returns (the test that failed or was the last to begin, "" when all passed; seconds of a core)."""
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
        """Returns True if the failed test passes without a change; for NOT_LINKED, if the program links."""
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
        """Returns tests by nearness, first those that have killed mutants of this file, then those named like it."""
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
        """Adds to self.changed, {object: changed object}, and self.same. Returns NOT_COMPILED if one fails, or None."""
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
        """Tries a mutant and returns (outcome, "TEST: WHY" if it was killed, else "", tests that ran)."""
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
        if len(dependents) <= 2:  # no test need be built to see that it does not compile
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
            spent += seconds + 1  # to link it
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
