#!/usr/bin/env python3
"""Draws the densities of PNAC over the iterations of a run, as Figure 7 of the Unified Normalization paper.

    foldgrad analyze pnac RUN --json | examples/pnac_density.py > densities.svg

One curve for each phase of q and of G: the share of all iterations and normalizers by PNAC in percent, smoothed by a
Gaussian of 2 percent. The dashed curve is that of noise.
"""
import json
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM, DEVIATION = 480, 260, 40, 20, 30, 2.0
COLOURS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728"]


def densities(sites):
    """Returns densities at 0, 1, ..., 100 percent by the name of the curve."""
    values = {}
    for site in sites:
        for name, curve in site.items():
            if isinstance(curve, dict):
                values.setdefault(name, []).extend(curve["values"])
    factor = 1 / (DEVIATION * math.sqrt(2 * math.pi))
    return {name: [sum(math.exp(-((x - v) / DEVIATION) ** 2 / 2) for v in of) * factor / len(of) for x in range(101)]
            for name, of in values.items() if of}


def path(density, top):
    place = lambda x: (LEFT + x * (WIDTH - LEFT - RIGHT) / 100, (HEIGHT - BOTTOM) * (1 - density[x] / top))
    return "M" + "L".join("{:.1f} {:.1f}".format(*place(x)) for x in range(101))


def drawn(run):
    curves = densities(run["sites"])
    top = 1.05 * max(map(max, curves.values()))
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
             f'font-size="12" fill="none">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    colours = iter(COLOURS)
    for number, (name, density) in enumerate(curves.items()):
        style = 'stroke="#888" stroke-dasharray="4"' if name.startswith("noise") else f'stroke="{next(colours)}"'
        lines.append(f'<path d="{path(density, top)}" {style}/>')
        lines.append(f'<path d="M{LEFT + 10} {20 + 16 * number}h24" {style}/>')
        lines.append(f'<text x="{LEFT + 40}" y="{24 + 16 * number}" fill="black">{name}</text>')
    for percent in range(0, 101, 20):
        x = LEFT + percent * (WIDTH - LEFT - RIGHT) / 100
        lines.append(f'<text x="{x:.0f}" y="{HEIGHT - 12}" fill="black" text-anchor="middle">{percent}</text>')
    lines.append(f'<path d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH}" stroke="black"/></svg>')
    return "\n".join(lines)


if __name__ == "__main__":
    print(drawn(json.load(sys.stdin)[0]))
