"""Tests the event files that foldgrad.tensorboard writes."""
import contextlib
import io
import os
import struct
import tempfile
from pathlib import Path

from setting import expect, expect_error, require

require("numpy", "tensorboard", "foldgrad")

from foldgrad import tensorboard

LOG = """{"event":"start","step":0,"steps":300,"norm":"un"}
{"event":"train","step":5,"loss":0.5,"lr":null,"seconds":2.0}
{"event":"layers","step":300,"gradient_norms":{"a":1.0},"normalizers":{"s":{"iterations":9,"skips":2,"word":"x"}}}
{"event":"validate","step":300,"loss":0.25,"bleu_signature":"tok:13a","seconds":null}
{"event":"end","step":300,"outcome":"finished"}
"""
WANT = [(1e9, 0, {}), (1e9 + 2, 5, {"train/loss": 0.5, "train/seconds": 2}),
        (1e9 + 2, 300, {"gradient_norm/a": 1, "skips/s": 2}), (1e9 + 2, 300, {"validate/loss": 0.25})]


def events(file):
    """Yields the events of a file. A record consists of a length (8 bytes), a checksum (4), the event, and a
    checksum (4)."""
    content = file.read_bytes()
    while content:
        end = 12 + struct.unpack("<Q", content[:8])[0]
        yield tensorboard.Event.FromString(content[12:end])
        content = content[end + 4:]


def main():
    with tempfile.TemporaryDirectory() as folder:
        runs = [Path(folder, name) for name in ("x/un", "y/un")]
        for run in runs:
            run.mkdir(parents=True)
            (run / "config.toml").write_text("")
            (run / "log.jsonl").write_text(LOG)
            os.utime(run / "log.jsonl", (1e9 + 2, 1e9 + 2))  # the run began two seconds earlier
        for _ in range(2):  # the second call replaces the files
            written = tensorboard.write(os.path.join(folder, "to"), *runs)
        expect(sorted(Path(folder, "to").rglob("*.*")) == written, f"there must be one file per run, got {written}")
        expect([str(file.parent.relative_to(folder)) for file in written] == ["to/x/un", "to/y/un"], f"got {written}")
        got = [(e.wall_time, e.step, {v.tag: v.simple_value for v in e.summary.value}) for e in events(written[1])]
        expect(got == WANT, f"the events must be {WANT}, got {got}")
        expect_error(FileNotFoundError, "there is no run", lambda: tensorboard.write(folder, os.path.join(folder, "z")))
        missing, printed = os.path.join(folder, "z"), io.StringIO()
        with contextlib.redirect_stderr(printed):
            code = tensorboard.main([folder, missing])
        got = code, printed.getvalue()
        expect(got == (1, f"error: {missing}: there is no run\n"), f"got {got}")


main()
