"""Programs in separate process groups, which end as a whole when their time is up."""
import os
import signal
import subprocess
import time


def launch(command, log, environment):
    with open(log, "ab") as output:
        return subprocess.Popen([str(word) for word in command], stdout=output, stderr=subprocess.STDOUT,
                                stdin=subprocess.DEVNULL, env={**os.environ, **environment}, start_new_session=True)


def finish(child, ends):
    """Waits, kills the rest of the group, and returns 0 or, in words, how the child ended."""
    try:
        status = child.wait(max(0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        status = None
    try:
        os.killpg(child.pid, signal.SIGKILL)  # whatever it left running
    except ProcessLookupError:
        pass
    child.wait()
    if status is None:
        return "ran out of time"
    return 0 if status == 0 else f"signal {-status}" if status < 0 else f"exit code {status}"
