"""Writes the logs of runs as event files for TensorBoard:

    python3 -m foldgrad.tensorboard DIRECTORY RUN... && tensorboard --logdir DIRECTORY

The numbers in "train" and "validate" events become scalars named train/KEY and validate/KEY. Those in "layers" events
become gradient_norm/LAYER and KEY/SITE (docs/training.md).
"""
import argparse
import os
import pathlib
import sys

from foldgrad import _training

try:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter
except ImportError as error:
    raise ImportError("foldgrad.tensorboard needs TensorBoard: pip install foldgrad[tensorboard]") from error


def scalars(event: _training.Event) -> dict[str, float]:
    """Returns the numbers in an event of log.jsonl as {TensorBoard tag: number}."""
    kind, found = event["event"], {}
    if kind in ("train", "validate"):
        found = {f"{kind}/{key}": value for key, value in event.items() if key != "step"}
    elif kind == "layers":
        found = {f"gradient_norm/{layer}": norm for layer, norm in event["gradient_norms"].items()}
        found.update({f"{key}/{site}": value for site, values in event["normalizers"].items()
                      for key, value in values.items() if key != "iterations"})
    return {tag: value for tag, value in found.items() if isinstance(value, (int, float))}


def write(directory: _training.Path, *paths: _training.Path) -> list[pathlib.Path]:
    """Writes DIRECTORY/NAME/events.out.tfevents.foldgrad for each run, replacing existing files. Returns the paths."""
    above, written = os.path.commonpath([pathlib.Path(path).resolve().parent for path in paths]), []
    for path in paths:
        run = _training.Run(path)
        time = os.path.getmtime(run.path / "log.jsonl") - sum(event.get("seconds") or 0 for event in run.events)
        records = [Event(wall_time=time, file_version="brain.Event:2")]
        for event in run.events:
            time += event.get("seconds") or 0
            values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars(event).items()]
            if values:
                records.append(Event(wall_time=time, step=event["step"], summary=Summary(value=values)))
        out = pathlib.Path(directory, os.path.relpath(run.path.resolve(), above), "events.out.tfevents.foldgrad")
        out.parent.mkdir(parents=True, exist_ok=True)
        written.append(out)
        with open(out, "wb") as file:
            for record in records:
                RecordWriter(file).write(record.SerializeToString())
    return written


def main(words: list[str] | None = None) -> int:
    """Writes the files and prints their paths. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python3 -m foldgrad.tensorboard", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", metavar="DIRECTORY", help="TensorBoard's --logdir; existing files are replaced")
    parser.add_argument("runs", nargs="+", metavar="RUN")
    given = parser.parse_args(words)
    return _training.run_command(lambda: print(*write(given.directory, *given.runs), sep="\n"))


if __name__ == "__main__":
    sys.exit(main())
