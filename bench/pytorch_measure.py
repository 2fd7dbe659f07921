"""Functions that the PyTorch programs share, for options, for models in onnxruntime and for timing."""
import argparse
import os
import tempfile
import time

import torch


def parser(description, seconds=10):
    """Returns a parser of the common options."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--threads", type=int, default=2, help="threads of PyTorch (default: 2)")
    options.add_argument("--seconds", type=float, default=seconds, help=f"seconds per benchmark (default: {seconds:g})")
    options.add_argument("--filter", default="", help="only benchmarks whose name matches this regular expression")
    return options


def begin(options):
    """Parses the options and prepares PyTorch. Returns the options, and a result that only has the setup so far."""
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    return given, {"context": {"torch": torch.__version__, "threads": torch.get_num_threads()}}


def onnx_session(path, threads):
    import onnxruntime  # imported here, since comparisons with PyTorch do not need it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def exported(model, name, given, threads):
    """Exports the model with PyTorch, with this name for its input. Returns an onnxruntime session of the export."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.onnx")
        torch.onnx.export(model, (given,), path, dynamo=False, opset_version=17, input_names=[name])
        return onnx_session(path, threads)


def measure(step, seconds, device="cpu"):
    """Returns the seconds of each step. On a GPU, times ten steps together, without waits, and divides by ten."""
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
