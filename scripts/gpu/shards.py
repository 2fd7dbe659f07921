"""Runs test programs in several processes at a time. A faulty kernel makes all later tests of its process fail, too.
Therefore each test that failed runs again in a separate process. After a crash, the remaining tests run in a new
process."""
import os
import re
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from programs import finish, launch

JOBS = os.cpu_count() or 1
TESTS_OF_A_SHARD = 50
SECONDS_AT_ONCE = 45  # time limit of a process, so that a hanging test does not use up the time of all tests
SHARE_ALONE = 0.25  # fraction of the time that is reserved for running failed tests again
OUTCOME = re.compile(r"^\[( RUN     |       OK|  FAILED |  SKIPPED) \] ([^\s,.]+\.[^\s,]+)", re.M)
RESULTS = {"       OK": "passed", "  FAILED ": "failed", "  SKIPPED": "skipped", " RUN     ": "failed"}


def names_of(program):
    listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    names, suite = [], ""
    for line in listed.splitlines():
        line = line.split("#")[0].rstrip()
        if line.startswith("  "):
            names.append(suite + line.strip())
        elif line.endswith("."):
            suite = line
    return [name for name in names if ".DISABLED_" not in name]


def outcomes(text):
    """Returns {test: result}. A test that began but did not end has crashed."""
    found = {}
    for kind, name in OUTCOME.findall(text):
        found[name] = RESULTS[kind]
    return found


def run_once(program, names, log, ends, environment):
    with tempfile.NamedTemporaryFile("w", suffix=".flags") as flags:
        flags.write("--gtest_filter=" + ":".join(names) + "\n")
        flags.flush()
        began = log.stat().st_size if log.exists() else 0
        finish(launch([program, f"--gtest_flagfile={flags.name}"], log, environment), ends)
    with open(log, errors="replace") as text:
        text.seek(began)
        return outcomes(text.read())


def run_shard(program, names, log, ends, environment):
    """Runs tests and returns {test: result}. After each crash, continues with the remaining tests."""
    results = {}
    while names:
        new = run_once(program, names, log, min(ends, time.monotonic() + SECONDS_AT_ONCE), environment)
        if not new:
            break
        results |= new
        names = [name for name in names if name not in results]
    return results


def run_tests(programs, logs, ends, environment):
    """Returns {"PROGRAM: TEST": "passed", "passed alone", "failed", "skipped" or "not run"}."""
    first_ends = ends - SHARE_ALONE * (ends - time.monotonic())
    shards = []
    for program in programs:
        names = names_of(program)
        count = max(1, -(-len(names) // TESTS_OF_A_SHARD))
        shards += [(program, names[k::count], logs / f"{program.name}-{k}.log") for k in range(count)]
    results = {f"{program.name}: {name}": "not run" for program, names, _ in shards for name in names}

    def shard(work):
        program, names, log = work
        found = run_shard(program, names, log, first_ends, environment)
        return {f"{program.name}: {name}": result for name, result in found.items()}

    def alone(number, key):
        program = next(p for p in programs if p.name == key.split(": ")[0])
        name = key.split(": ", 1)[1]
        return key, run_once(program, [name], logs / f"alone-{number}.log", ends, environment).get(name, "failed")

    with ThreadPoolExecutor(JOBS) as pool:
        for found in pool.map(shard, shards):
            results |= found
        suspects = [key for key, result in results.items() if result == "failed"]
        for key, result in pool.map(alone, range(len(suspects)), suspects):
            results[key] = "passed alone" if result == "passed" else "failed"
    return results
