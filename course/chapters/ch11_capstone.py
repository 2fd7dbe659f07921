"""The capstone, a normalizer of your own. ch11_capstone.md explains it."""
import foldgrad as fg
import numpy as np


class Mine:
    """y = gain x / sqrt(run_sq + eps) + bias, where run_sq follows the mean squares of the channels in training."""

    name = "mine"
    summary = "divides by a running mean square"

    # Exercise 11.1
    def __init__(self, site):
        """site has channels, dtype ("f32" or "f64"), and parameter(name, value): a Parameter, that value per channel."""
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
        """Returns A and B [channels] of y = A x + B at inference."""
        run_sq = self.run_sq.numpy().astype(float)
        return self.gain.value.numpy() / np.sqrt(run_sq + 1e-5), self.bias.value.numpy().astype(float)


# Exercise 11.2
def deliver(run, directory):
    """Verifies, folds and exports the model of a fg.Run whose table is tied; directory is a pathlib.Path.

    Raises ValueError with the name of the check if one failed, and then writes nothing. Saves the folded model to
    directory / "folded" and its ONNX files to directory / "onnx". Returns the Folded.
    """
    model = run.model()
    for row in model.verify(tied="untie"):
        if row["outcome"] == "FAILED":
            raise ValueError(row["check"])
    folded = model.fold(tied="untie")
    folded.save(str(directory / "folded"))
    folded.model.export_onnx(str(directory / "onnx"))
    return folded
