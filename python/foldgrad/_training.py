"""Training as in `foldgrad train`, and access to the files of a run."""
import json
import logging
import os
import pathlib
import sys
import typing

from foldgrad import _core

Event = dict[str, typing.Any]
Path = str | os.PathLike[str]


def run_command(print_results: typing.Callable[[], None]) -> int:
    """Calls print_results() and returns 0. If it raises OSError or ValueError, prints the error and returns 1."""
    try:
        print_results()
    except (OSError, ValueError) as error:
        named = error if isinstance(error, OSError) and error.filename and error.strerror else None
        print(f"error: {named.filename}: {named.strerror}" if named else f"error: {error}", file=sys.stderr)
        return 1
    return 0


class Run:
    """The directory of a run."""

    def __init__(self, path: Path):
        """Raises FileNotFoundError if `path` is not the directory of a run."""
        self.path = pathlib.Path(path)
        if not (self.path / "config.toml").exists():
            raise FileNotFoundError(2, "there is no run", str(path))

    @property
    def config(self) -> str:
        """The effective configuration as TOML."""
        return (self.path / "config.toml").read_text()

    @property
    def events(self) -> list[Event]:
        """The events of log.jsonl (docs/training.md)."""
        return [json.loads(line) for line in (self.path / "log.jsonl").read_text().splitlines()]

    def _columns(self, kind: str) -> dict[str, typing.Any]:
        import numpy as np
        rows = [event for event in self.events if event["event"] == kind]
        names = dict.fromkeys(name for row in rows for name in row if name != "event")
        return {name: np.array([row.get(name) for row in rows]) for name in names}

    @property
    def log(self) -> dict[str, typing.Any]:
        """The "train" events of log.jsonl as one array for each key, such as step, loss and lr."""
        return self._columns("train")

    @property
    def validations(self) -> dict[str, typing.Any]:
        """The "validate" events of log.jsonl as one array for each key, such as step, loss and other scores."""
        return self._columns("validate")

    @property
    def recordings(self) -> dict[str, dict[str, _core.Tensor]]:
        """The normalizers' recordings by phase, then by name: "update", "SITE.q", "SITE.G", ... (docs/analyses.md)."""
        files = sorted((self.path / "statistics").glob("*.safetensors"))
        return {file.stem: _core.read_safetensors(str(file))[0] for file in files}

    def _checkpoint(self, name: str) -> pathlib.Path:
        checkpoints = self.path / "checkpoints"
        return checkpoints / (checkpoints / name).read_text().split()[0]

    def model(self, best: bool = True) -> _core.Model:
        """Loads the best checkpoint, or the newest one if `best` is false or no best one was selected."""
        has_best = (self.path / "checkpoints" / "BEST").exists()
        return _core.load(str(self._checkpoint("BEST" if best and has_best else "LATEST")))

    def report(self, path: Path | None = None) -> pathlib.Path:
        """Writes the run's report, by default to report.html in the run's directory, and returns its path."""
        page = pathlib.Path(path) if path else self.path / "report.html"
        _core.write_report(str(self.path), str(page))
        return page

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"


def train(config: Path, out: Path, settings: dict[str, typing.Any] | None = None, data_dir: Path = "",
          resume: bool = False, device: str = "cpu", callback: typing.Callable[[Event], object] | None = None,
          progress: bool = True) -> Run:
    """Trains a model with the configuration file `config`, in the run directory `out`, and returns the run.

    `settings` overrides keys of the configuration, as in {"train.steps": 100}. `callback` is called with each event of
    log.jsonl. If it raises an exception, training stops after the current update, saves a checkpoint, and re-raises the
    exception; Ctrl-C does the same with KeyboardInterrupt. If `progress` is true, losses and scores are printed to
    stderr. Other messages go to the logger "foldgrad". Raises ConfigError, CheckpointError, FileError or Diverged.
    """
    def on_event(event: Event) -> None:
        if progress:
            _show(event)
        if callback:
            callback(event)

    _core.send_messages_to(_log)
    try:
        code, _ = _core.run_training(
            config=os.fspath(config), out=os.fspath(out), data_directory=os.fspath(data_dir), device=device,
            settings=[f"{key}={_text(value)}" for key, value in (settings or {}).items()],
            resume="latest" if resume else "", command=["foldgrad.train", os.fspath(config)], on_event=on_event)
    finally:
        _core.send_messages_to(None)
    run = Run(out)
    if code:
        step = int(run._checkpoint("LATEST").name.rpartition("-")[2])
        raise KeyboardInterrupt(f"saved a checkpoint at step {step}; resume=True continues from it")
    return run


def _show(event: Event) -> None:
    if event["event"] == "train":
        print(f"step {event['step']:>6}  loss {event['loss']:7.4f}  lr {event['lr']:.2e}", file=sys.stderr)
    elif event["event"] == "validate":
        scores = "  ".join(f"{name} {value:.4g}" for name, value in event.items()
                           if isinstance(value, float) and name != "seconds")
        print(f"step {event['step']:>6}  validation: {scores}", file=sys.stderr)


def _log(text: str) -> None:
    text = text.strip()
    logging.getLogger("foldgrad").log(logging.WARNING if text.startswith("warning:") else logging.INFO, "%s", text)


def _text(value: typing.Any) -> str:
    return json.dumps(value) if isinstance(value, (bool, list)) else str(value)
