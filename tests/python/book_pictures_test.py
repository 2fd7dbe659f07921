"""Checks that the committed pictures in docs/pictures show the numbers that book/pictures.py computes with the
engine."""
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

from setting import SOURCES, require

sys.path.insert(0, os.path.join(SOURCES, "book"))
require("numpy", "matplotlib", "foldgrad")

import numpy as np
import pictures


class Pictures(unittest.TestCase):
    def test_committed_pictures_have_the_numbers_of_the_engine(self):
        page = Path(SOURCES, "docs/engine.md").read_text()
        with tempfile.TemporaryDirectory() as folder:
            pictures.main(folder)
            for name in pictures.HISTORIES:
                self.assertIn(f"pictures/{name}.svg", page)
                drawn, committed = (pictures.numbers_in(Path(path, name + ".svg").read_text())
                                    for path in (folder, os.path.join(SOURCES, "docs/pictures")))
                self.assertEqual(list(drawn), list(committed))
                for key, values in drawn.items():
                    # Subtracting nearly equal means loses five digits.
                    np.testing.assert_allclose(values, committed[key], rtol=1e-9, atol=1e-11, err_msg=f"{name}: {key}")

    def test_a_picture_shows_its_numbers(self):
        svg = Path(SOURCES, "docs/pictures/un-window.svg").read_text()
        shown, h = re.findall(r">(\d+\.\d+)</text>", svg), pictures.numbers_in(svg)
        want = [v for window, var_hat in zip(h["window"], h["var_hat"]) for v in (*window, var_hat)]
        self.assertEqual(shown, [f"{v:.2f}" if v < 10 else f"{v:.1f}" for v in want])


if __name__ == "__main__":
    unittest.main()
