"""Plots runs and normalizers with matplotlib. Each function draws into `axes`, or into the axes of a new figure if
`axes` is None, and returns the axes.

    import foldgrad as fg, foldgrad.plot

    fg.plot.curves(fg.Run("runs/un"), fg.Run("runs/ln"))
"""
import typing

try:
    import matplotlib.pyplot as pyplot
    import numpy as np
except ImportError as error:
    raise ImportError("foldgrad.plot needs matplotlib: pip install foldgrad[plot]") from error

from foldgrad import _core, analyze
from foldgrad._training import Run

Axes = typing.Any


def _axes(axes: Axes, **labels: typing.Any) -> Axes:
    axes = axes if axes is not None else pyplot.figure().add_subplot()
    axes.set(**labels)
    return axes


def curves(*runs: Run, axes: Axes = None) -> Axes:
    """Draws the training losses as lines and the validation losses as dots."""
    axes = _axes(axes, xlabel="update", ylabel="loss")
    for run in runs:
        line, = axes.plot(run.log["step"], run.log["loss"], label=run.path.name)
        if "loss" in run.validations:
            axes.plot(run.validations["step"], run.validations["loss"], "o", color=line.get_color())
    axes.legend()
    return axes


def skips(run: Run, axes: Axes = None) -> Axes:
    """Draws the number of iterations that each normalizer has skipped as outliers. The plot is empty if no normalizer
    has an outlier test."""
    axes = _axes(axes, xlabel="update", ylabel="skipped iterations")
    counts: dict[str, list[tuple[int, int]]] = {}
    for event in run.events:
        if event["event"] == "layers":
            for site, values in event["normalizers"].items():
                if "skips" in values:
                    counts.setdefault(site, []).append((event["step"], values["skips"]))
    for site, points in counts.items():
        axes.plot(*zip(*points), label=site)
    if counts:
        axes.legend()
    return axes


def traces(run: Run, site: str, channel: int = 0, phase: str = "begin", window: int = 4, axes: Axes = None) -> Axes:
    """Draws the mean square q of a channel, and the arithmetic and geometric means of its last `window` values."""
    recording = run.recordings[phase]
    update, q = recording["update"].numpy(), recording[site + ".q"].numpy()[:, channel].astype(float)
    axes = _axes(axes, xlabel="update", ylabel="mean square", yscale="log", title=f"{site}, channel {channel}")
    axes.plot(update, q, ".", color="gray", label="q")
    for name, mean in zip(("arithmetic", "geometric"), analyze.means(q, window)):
        axes.plot(update[window - 1:], mean, label=name + " mean")
    axes.legend()
    return axes


def pnac(run: Run, phase: str = "begin", window: int = 32, axes: Axes = None) -> Axes:
    """Draws, for each site, the percentage of channels whose last `window` values of q pass a normality test.

    This is D'Agostino and Pearson's test with p > 0.05. The gray line shows normally distributed noise for comparison.
    """
    update = run.recordings[phase]["update"].numpy()[window - 1:]
    axes = _axes(axes, xlabel="update", ylabel="channels, %", ylim=(0, 105))
    curves: dict[str, typing.Any] = {}
    for site, curves in analyze.pnac(run, window).items():
        axes.plot(update, curves["q " + phase], label=site)
    axes.plot(update, curves["noise " + phase], label="noise", color="gray")
    axes.legend()
    return axes


def densities(run: Run, window: int = 32, axes: Axes = None) -> Axes:
    """Draws the densities of PNAC over all iterations and sites, smoothed by a Gaussian kernel with a standard
    deviation of 2 percentage points. The noise curves are dashed."""
    axes, percent = _axes(axes, xlabel="channels, %"), np.arange(101)
    sites = analyze.pnac(run, window).values()
    for name in dict.fromkeys(name for curves in sites for name in curves):
        values = np.concatenate([curves[name] for curves in sites if name in curves])
        density = np.exp(-((percent[:, None] - values) / 2) ** 2 / 2).mean(1) / np.sqrt(8 * np.pi)
        axes.plot(percent, density, "--" if name.startswith("noise") else "-", label=name)
    axes.legend()
    return axes


def cka(a: Run, b: Run, axes: Axes = None, **options: typing.Any) -> Axes:
    """Draws the linear CKA between the layers of two runs' models. `options` are passed to foldgrad.analyze.cka()."""
    of_a, of_b, values = analyze.cka(a, b, **options)
    axes = _axes(axes, title="linear CKA")
    axes.figure.colorbar(axes.imshow(values, vmin=0, vmax=1, origin="lower"))
    axes.yaxis.set_ticks(range(len(of_a)), of_a)
    axes.xaxis.set_ticks(range(len(of_b)), of_b)
    axes.tick_params("x", rotation=90)
    return axes


def window(normalizer: _core.Normalizer, axes: Axes = None) -> Axes:
    """Draws a normalizer's window: the mean squares of each channel, and their arithmetic and geometric means."""
    means = normalizer.diagnostics().get("window")
    if means is None:
        raise ValueError(f"{normalizer.name} has no window")
    axes = _axes(axes, xlabel="channel", ylabel="mean square", title=normalizer.site)
    axes.plot(normalizer.state["win_sq"].numpy().T, ".", color="gray")
    arithmetic, geometric = zip(*typing.cast(list[tuple[float, float]], means))
    axes.plot(arithmetic, label="arithmetic mean")
    axes.plot(geometric, label="geometric mean")
    axes.legend()
    return axes
