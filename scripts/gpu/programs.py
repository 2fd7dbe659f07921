"""Runs programs in separate process groups, so that a program and its children can be killed when their time is up."""
import os
import signal
import subprocess
import time


def launch(command, log, environment):
    with open(log, "ab") as output:
        return subprocess.Popen([str(word) for word in command], stdout=output, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL, env={**os.environ, **environment}, start_new_session=True)


def finish(child, ends):
    """Waits for the child until `ends` and then kills the rest of its group. Returns 0, or text that says how the child
    failed."""
    try:
        status = child.wait(max(0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        status = None
    try:
        os.killpg(child.pid, signal.SIGKILL)  # also kills processes that the child left running
    except ProcessLookupError:
        pass
    child.wait()
    if status is None:
        return "ran out of time"
    return 0 if status == 0 else f"signal {-status}" if status < 0 else f"exit code {status}"
