"""Helpers of the tests of pages: a browser, a directory of runs, logs, and checks of HTML and colours."""
import html.parser
import json
import os
import subprocess
import sys
import tempfile
import unittest

from browser import Browser, find_chromium
from setting import PROGRAM


EVIL = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>&amp;"
STEPS = list(range(100, 1100, 100))
LAYERS = 6
SITES = [f"{stack}.{site}layer_norm" for stack, parts in (("encoder", ("self_attn", "final")),
                                                          ("decoder", ("self_attn", "encoder_attn", "final")))
         for site in [f"layers.{i}.{part}_" for i in range(LAYERS) for part in parts] + [""]]


def loss(seed, step):
    return 5 / (1 + step / 100) + 0.1 * seed + 0.05 * (step // 100 % 2)


def variance(seed, site, step):
    return 0.01 * seed * 1.5 ** SITES.index(site) * step


def bleu(seed, step):
    return 20 + 3 * seed + step / 100


def events(seed, skips):
    yield {"event": "start", "step": 0, "steps": STEPS[-1], "norm": "un", "parameters": 1234, "device": "cpu"}
    for step in STEPS:
        yield {"event": "train", "step": step, "loss": loss(seed, step), "gradient_norm": seed * 10 ** (step / 500),
               "seconds": 30.0}
        yield {"event": "validate", "step": step, "loss": loss(seed, step), "perplexity": 2 ** loss(seed, step),
               "bleu": bleu(seed, step), "bleu_signature": "tok:13a", "exact": 0.0, "seconds": 1.0}
        normalizers = {site: {"iterations": step, "skips": skips, "greatest_variance": variance(seed, site, step)}
                       for site in SITES}
        yield {"event": "layers", "step": step, "gradient_norms": {"encoder.layers.10": 1.0, "encoder.layers.2": 2.0},
               "normalizers": normalizers}
    yield {"event": "not_finite", "step": STEPS[-1], "action": "skip", "message": EVIL}
    yield {"event": "end", "step": STEPS[-1], "outcome": "finished"}


class Structure(html.parser.HTMLParser):
    """Finds elements that are not closed, closing tags without an element, and repeated ids and attributes."""
    VOID = {"meta", "input", "img", "br", "hr", "link"}

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.complaints = [], set(), []
        self.feed(text)
        self.close()
        self.complaints += [f"<{tag}> is not closed" for tag in self.open]

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        names = [name for name, _ in attributes]
        if len(set(names)) != len(names):
            self.complaints.append(f"<{tag}> repeats an attribute")
        identity = dict(attributes).get("id")
        if identity in self.ids:
            self.complaints.append(f"id {identity} is repeated")
        if identity:
            self.ids.add(identity)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.complaints.append(f"</{tag}> closes nothing")


def contrast(a, b):
    """Returns the contrast ratio of two colours such as #1a2b3c (WCAG 2.1)."""
    def luminance(colour):
        channels = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


class PageTest(unittest.TestCase):
    """All tests of a class share the browser and the files."""

    @classmethod
    def setUpClass(cls):
        cls.files = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.browser = cls.enterClassContext(Browser(find_chromium()))

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.files, *names)

    @classmethod
    def write(cls, name, content):
        os.makedirs(os.path.dirname(cls.path(name)), exist_ok=True)
        with open(cls.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())

    @classmethod
    def write_log(cls, run, events):
        cls.write(run + "/log.jsonl", "".join(json.dumps(event) + "\n" for event in events))

    @staticmethod
    def run_program(*arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)

    @classmethod
    def report(cls, *runs):
        out = cls.path("-".join(runs) + ".html")
        done = cls.run_program("report", *map(cls.path, runs), "-o", out)
        assert done.returncode == 0, done.stderr
        return out

    def js(self, expression):
        return self.browser.evaluate(expression)

    def texts(self, selector):
        return self.js(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")

    def choose(self, selector, value):
        self.js(f"""(control => {{
            control.value = {json.dumps(str(value))};
            control.dispatchEvent(new Event(control.tagName === 'SELECT' ? 'change' : 'input'));
            }})(document.querySelector({json.dumps(selector)}))""")

    def expect_sound_structure(self):
        self.assertEqual(Structure(self.js("document.documentElement.outerHTML")).complaints, [])

    def expect_width(self, width):
        """Checks that the page is not wider than the window."""
        self.assertEqual(self.js("[document.documentElement.scrollWidth, innerWidth]"), [width, width])


def main():
    if not find_chromium():
        print("skipped: there is no Chromium; on Debian, install the package chromium")
        sys.exit(77)
    unittest.main(module="__main__", verbosity=2)
