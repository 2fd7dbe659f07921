"""TensorBoard reads from `foldgrad report --tensorboard` every scalar of the log, at its step."""
import json
import os
import struct
import subprocess
import sys
import tempfile

from setting import PROGRAM, require

require("tensorboard.backend.event_processing.event_accumulator")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402

SITES = [f"decoder.layers.{i}.final_layer_norm" for i in range(3)]


def log():
    for step in (1, 127, 128, 70000, 2 ** 40):
        yield {"event": "train", "step": step, "loss": 1 / step, "lr": 1e-7 * step, "gradient_norm": None, "seconds": 1.5}
        yield {"event": "validate", "step": step, "bleu": step ** 0.5, "bleu_signature": "tok:13a", "seconds": 0.5}
        yield {"event": "layers", "step": step, "gradient_norms": {"encoder.layers.0": 3.25 * step},
               "normalizers": {site: {"iterations": step, "skips": 0, "least_variance": -1 / 3} for site in SITES}}


def scalars(events):
    """tag -> [(step, value)]"""
    found = {}
    for event in events:
        if event["event"] == "layers":
            named = {f"gradient_norm/{layer}": norm for layer, norm in event["gradient_norms"].items()}
            named |= {f"{key}/{site}": value for site, values in event["normalizers"].items()
                      for key, value in values.items() if key != "iterations"}
        else:
            named = {f"{event['event']}/{key}": value for key, value in event.items() if key != "step"}
        for tag, value in named.items():
            if isinstance(value, (int, float)):
                found.setdefault(tag, []).append((event["step"], struct.unpack("f", struct.pack("f", value))[0]))
    return found


with tempfile.TemporaryDirectory() as files:
    os.mkdir(run := os.path.join(files, "run"))
    with open(os.path.join(run, "log.jsonl"), "w") as file:
        file.writelines(json.dumps(event) + "\n" for event in log())
    os.utime(file.name, (1e9, 1e9))
    subprocess.run([PROGRAM, "report", run, "--tensorboard", files + "/events"], check=True)
    read = EventAccumulator(files + "/events/run", size_guidance={"scalars": 0}).Reload()
    got = {tag: [(e.step, e.value) for e in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
    times = [e.wall_time for e in read.Scalars("validate/bleu")]

want = scalars(log())
if got != want:
    sys.exit(f"TensorBoard read {got}, the log has {want}")
if times != [1e9 - 8, 1e9 - 6, 1e9 - 4, 1e9 - 2, 1e9]:
    sys.exit(f"validations were at {times}")
print(f"{sum(map(len, want.values()))} scalars of {len(want)} tags")
