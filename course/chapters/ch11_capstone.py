"""Capstone: a normalizer of your own. Read ch11_capstone.md first."""
import foldgrad as fg
import numpy as np


class Mine:
    """Computes y = gain * x / sqrt(run_sq + eps) + bias. run_sq is a running average of the channels' mean squares."""

    name = "mine"
    summary = "divides by a running mean square"

    # Exercise 11.1
    def __init__(self, site):
        """`site` has channels, dtype ("f32" or "f64"), and parameter(name, value), which makes a Parameter with that
        value in each channel."""
        self.gain, self.bias = site.parameter("weight", 1), site.parameter("bias", 0)
        self.parameters = [self.gain, self.bias]
        self.run_sq = fg.Tensor(np.ones(site.channels, np.float64 if site.dtype == "f64" else np.float32))
        self.state = {"run_sq": self.run_sq}

    # Exercise 11.1
    def forward(self, x, training):
        """Returns y for the Var x [..., channels]."""
        run_sq = self.run_sq.numpy()
        if training:
            values = x.value.numpy()
            run_sq *= 0.9
            run_sq += 0.1 * np.mean(values * values, axis=tuple(range(values.ndim - 1)))
        rstd = x.tape.constant((1 / np.sqrt(run_sq + 1e-5)).astype(run_sq.dtype))
        return fg.ops.affine(x, x.tape.parameter(self.gain) * rstd, x.tape.parameter(self.bias))

    # Exercise 11.1
    def affine(self):
        """Returns A and B [channels] of the map y = A x + B at inference."""
        run_sq = self.run_sq.numpy().astype(float)
        return self.gain.value.numpy() / np.sqrt(run_sq + 1e-5), self.bias.value.numpy().astype(float)


# Exercise 11.2
def deliver(run, directory):
    """Verifies, folds and exports the model of an fg.Run, whose embedding table is tied. `directory` is a pathlib.Path.

    If a check fails, raises ValueError with the name of the check and writes nothing. Otherwise saves the folded model
    to directory / "folded" and its ONNX files to directory / "onnx", and returns the Folded.
    """
    model = run.model()
    for row in model.verify(tied="untie"):
        if row["outcome"] == "FAILED":
            raise ValueError(row["check"])
    folded = model.fold(tied="untie")
    folded.save(str(directory / "folded"))
    folded.model.export_onnx(str(directory / "onnx"))
    return folded
