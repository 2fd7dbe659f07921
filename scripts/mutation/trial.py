"""Tries one mutant: compiles it, then links and runs the tests that can reach it until one fails."""
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

KILLED, SURVIVED, EQUIVALENT = "killed", "survived", "equivalent"
NOT_COMPILED, SAME_OBJECT, NOT_BUILT = "not compiled", "same object", "not built"
_MOST_OBJECTS = 6  # of a header that many include: so many are compiled again, those nearest to the test
_MEMORY = 24 << 30


def _limits():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))


class Tester:
    """Runs test programs, and knows how long those of the unchanged code take."""

    def __init__(self, tree, covering, work, cases):
        self.tree, self.covering, self.work = tree, covering, Path(work)
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive",
                            "RC_PARAMS": f"seed=1 max_success={cases}"}
        self.seconds, self.locks, self.lock = {}, {}, threading.Lock()
        self.red = set()  # those that fail without a change
        self.kills = {}  # (path, test) -> how often

    def run(self, program, timeout, folder, foldgrad=None):
        """(did it pass, why not)"""
        environment = {**self.environment, "TMPDIR": str(folder)}
        if foldgrad:
            environment["FOLDGRAD_PROGRAM"] = str(foldgrad)
        process = subprocess.Popen([program, "--gtest_fail_fast", "--gtest_brief=1"], cwd=self.tree.root, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   preexec_fn=_limits, start_new_session=True)
        try:
            out, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return False, "time limit"
        if process.returncode == 0:
            return True, ""
        failed = [l.split("] ", 1)[1].split(" (")[0] for l in out.decode(errors="replace").split("\n") if "[  FAILED  ] " in l]
        return False, failed[0] if failed else f"exit code {process.returncode}"

    def baseline(self, test):
        """Seconds of the unchanged program; None: it cannot be linked, or fails."""
        with self.lock:
            lock = self.locks.setdefault(test, threading.Lock())
        with lock:
            if test not in self.seconds:
                folder = self.work / "unchanged"
                (folder / "tmp").mkdir(parents=True, exist_ok=True)
                self.seconds[test] = None
                if self.tree.link(test, {}, folder / test):
                    start = time.monotonic()
                    passed, why = self.run(folder / test, 900, folder / "tmp")
                    self.seconds[test] = time.monotonic() - start if passed else None
                    (folder / test).unlink()
                    if not passed:
                        self.red.add(f"{test}: {why}")
            return self.seconds[test]

    def order(self, path):
        """Tests by nearness. What has killed mutants of this file comes first, then what is named like it."""
        words = set(re.split(r"[/_.]", path)) - {"cpp", "cu", "h", "test"}

        def rank(entry):
            distance, test = entry
            named = len(words & set(test.split("_")))
            return -self.kills.get((path, test), 0), distance - 2 * named, self.seconds.get(test) or 0, test
        return [test for _, test in sorted(self.covering.tests_of(path), key=rank)]


class Trial:
    def __init__(self, tester, folder):
        self.tester, self.tree, self.folder = tester, tester.tree, Path(folder)

    def _compile(self, mutant, targets):
        """{object: changed object}, or what came instead."""
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
        """(outcome, by which test or why, tests that ran)"""
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
        ran, spent = [], 0
        for test in self.tester.order(mutant.path):
            seconds = self.tester.baseline(test)
            if seconds is None or (len(ran) >= 2 and spent + seconds > budget):
                continue
            outcome, why = self._with(test, mutant, dependents, seconds)
            if outcome == NOT_COMPILED:
                return NOT_COMPILED, "", ran
            if outcome == SAME_OBJECT:
                continue
            ran.append(test)
            spent += seconds
            if outcome == KILLED:
                with self.tester.lock:
                    self.tester.kills[mutant.path, test] = self.tester.kills.get((mutant.path, test), 0) + 1
                return KILLED, f"{test}: {why}", ran
        return (SURVIVED if ran else SAME_OBJECT), "", ran

    def _with(self, test, mutant, dependents, seconds):
        distances = self.tester.covering.distances[test]
        nearest = sorted(dependents, key=lambda o: distances.get(self.tree.main_source[o], 1 << 30))
        linked = self.tree.objects_in(test)
        foldgrad = "foldgrad" if self.tester.covering.runs_program(test) else None
        if foldgrad:
            linked = linked | self.tree.objects_in(foldgrad)
        wanted = [o for o in nearest if o in linked][:_MOST_OBJECTS]
        if self._compile(mutant, wanted):
            return NOT_COMPILED, ""
        changed = {o: self.changed[o] for o in wanted if o in self.changed}
        if not changed:
            return SAME_OBJECT, ""
        if foldgrad:
            in_program = self.tree.objects_in("foldgrad")
            foldgrad = self.folder / "foldgrad"
            if not self.tree.link("foldgrad", {o: c for o, c in changed.items() if o in in_program}, foldgrad):
                return NOT_COMPILED, ""
        own = self.tree.objects_in(test)
        if not self.tree.link(test, {o: c for o, c in changed.items() if o in own}, self.folder / test):
            return NOT_COMPILED, ""
        passed, why = self.tester.run(self.folder / test, 15 + 5 * seconds, self.folder / "tmp", foldgrad)
        (self.folder / test).unlink()
        return (SURVIVED if passed else KILLED), why
