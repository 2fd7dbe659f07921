"""Tests the site that scripts/site.sh builds. Every link and anchor must resolve, and KaTeX must draw every
equation. A headless Chromium opens and searches the site's files; there must be no errors and no network requests."""
import html
import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path
from urllib.parse import unquote

from browser import Browser, find_chromium
from setting import SOURCES, require

require("sphinx", "myst_parser", "furo")
SITE = Path(SOURCES) / "build/site"
OPENED = ["index", "docs/training", "docs/engine", "docs/normalizers", "docs/folding", "docs/backward", "docs/analyses",
          "docs/derivations/channel_norm", "ops/layer_norm/layer_norm.h", "engine/tape.h", "tags", "files"]


def broken(pages):
    """Yields a message for each link to a file or an anchor that does not exist. `pages` is {path: HTML}."""
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    for path, text in pages.items():
        for link in {html.unescape(link) for link in re.findall(r'\b(?:href|src)="([^"]*)"', text)}:
            if re.match(r"[a-z]+:", link) or link in ("#", ""):
                continue
            file, _, anchor = unquote(link).partition("#")
            there = os.path.normpath(os.path.join(os.path.dirname(path), file.split("?")[0])) if file else path
            if there not in pages and not os.path.isfile(there):
                yield f"{path}: {link} leads nowhere"
            elif anchor and anchor not in anchors.get(there, ()):
                yield f"{path}: there is no anchor {link}"


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = subprocess.run([f"{SOURCES}/scripts/site.sh"], env={**os.environ, "FOLDGRAD_VENV": sys.prefix},
                              capture_output=True, text=True)
        if made.returncode == 77:
            raise unittest.SkipTest(made.stderr)
        if made.returncode:
            raise RuntimeError(made.stdout + made.stderr)
        cls.pages = {str(path): path.read_text() for path in SITE.rglob("*.html")}

    def browser(self):
        if not find_chromium():
            self.skipTest("there is no Chromium")
        return Browser(find_chromium())

    def expect_quiet(self, browser):
        self.assertEqual(browser.complaints(), [])
        self.assertEqual([url for url in browser.requests() if not url.startswith(("file:", "data:"))], [])

    def test_links_and_anchors_lead_somewhere(self):
        self.assertEqual(list(broken(self.pages)), [])
        faults = list(broken({"a.html": '<a href="b.html">', "c.html": '<a href="#x"><a href="a.html">'}))
        self.assertEqual(faults, ["a.html: b.html leads nowhere", "c.html: there is no anchor #x"])

    def test_every_header_and_every_tag_has_its_place(self):
        headers = [path for top in ("engine", "ops", "models", "train") for path in Path(SOURCES, top).rglob("*.h")]
        self.assertEqual([str(h) for h in headers if not (SITE / f"{h.relative_to(SOURCES)}.html").exists()], [])
        tags = re.findall(r"^\| ([A-Z][A-Z0-9]*-\d+) \|", Path(SOURCES, "docs/equations.md").read_text(), re.M)
        self.assertEqual([t for t in tags if f'<dt id="{t}">' not in self.pages[str(SITE / "tags.html")]], [])
        self.assertIn('<a id="layer_norm"></a>', self.pages[str(SITE / "ops/layer_norm/layer_norm.h.html")])

    def test_pages_open_without_a_network(self):
        with self.browser() as browser:
            for page in OPENED:
                browser.open(str(SITE / f"{page}.html"))
                self.expect_quiet(browser)
                drawn, given = browser.evaluate(
                    "['.equation .katex', '.equation'].map(s => document.querySelectorAll(s).length)")
                self.assertEqual(drawn, given, page)
            self.assertEqual(browser.evaluate("document.querySelectorAll('.katex-error').length"), 0)

    def test_katex_draws_every_equation(self):
        equations = [html.unescape(e) for text in self.pages.values()
                     for e in re.findall(r'class="equation">(.*?)</', text, re.S)]
        self.assertGreater(len(equations), 40)
        with self.browser() as browser:
            browser.open(str(SITE / "index.html"))
            draw = """e => { try { katex.renderToString(e, {displayMode: true}); return ""; }
                             catch (error) { return error.message; } }"""
            self.assertEqual([e for e in browser.evaluate(f"{json.dumps(equations)}.map({draw})") if e], [])

    def test_search_finds_words_and_names(self):
        with self.browser() as browser:
            for words, page in (("geometric mean", "docs/engine"), ("kParallelElements", "engine/cpu/threads.h")):
                browser.open(f"{SITE}/search.html?q={words.replace(' ', '+')}")
                found = browser.evaluate("""(async () => { for (let i = 0; i < 500; ++i) {
                    if (document.querySelector(".search-summary, #search-results p")?.textContent.match(/\\d/)) break;
                    await new Promise(done => setTimeout(done, 20)); }
                    return [...document.querySelectorAll("#search-results li a")].map(a => a.href); })()""")
                self.assertTrue(any(f"{page}.html" in link for link in found), (words, found[:20]))
                self.expect_quiet(browser)


if __name__ == "__main__":
    unittest.main()
