"""The common part of the programs in PyTorch: their options, and the seconds of a call."""
import argparse
import time

import torch


def parser(description, seconds=10):
    """Returns a parser of the options that all have."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=2, help="of PyTorch (default: 2)")
    options.add_argument("--seconds", type=float, default=seconds, help=f"per benchmark (default: {seconds:g})")
    options.add_argument("--filter", default="", help="only benchmarks whose name matches this regular expression")
    return options


def begin(options):
    """Returns the options given, and the beginning of the result, with what was used."""
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    return given, {"context": {"torch": torch.__version__, "threads": torch.get_num_threads()}}


def measure(step, seconds, device="cpu"):
    """Returns the seconds of each step; on a GPU of each of ten, which follow one another without a wait."""
    wait, steps = (torch.cuda.synchronize, 10) if device == "cuda" else (lambda: None, 1)
    step(), step(), wait()
    times = []
    while sum(times) * steps < seconds or len(times) < 3:
        start = time.perf_counter()
        for _ in range(steps):
            step()
        wait()
        times.append((time.perf_counter() - start) / steps)
    return times
