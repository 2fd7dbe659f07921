"""Writes the site's pages into a folder for Sphinx: a page for each Markdown file, with links to the code pages; a code
page for each header, and for each other file that a document links to or that cites an equation's tag; a list of all
code pages; and the index of equations."""
import html
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/structure"))
import backward  # noqa: E402
from sources import anchors, rows  # noqa: E402

TAG, GROUP = backward.TAG, backward.GROUP
COPIED = {".png", ".svg", ".json", ".tsv"}  # files that are copied unchanged if a page links to them
LINK = re.compile(r"\]\(([^)\s#]+)((?:#[^)\s]*)?)\)")
TEST = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\((\w+),\s*(\w+)", re.M)
NAME = re.compile(r" {0,2}(?:(?:template .*|inline|static|constexpr|explicit|virtual|friend|extern)\s+)*(?:"
                  r"(?:struct|class|enum(?: class)?|#define|using) +(\w+)|[\w:][\w:<>,*& ]*[ *&](\w+)\()")
PLAIN = re.compile(r'<span class="(?:n|p|o|w|kt|nf|nc|nb|mi|mf|cp|ow)">([^<]*)</span>')  # shown like plain text


def target(page, link):
    return os.path.normpath(os.path.join(os.path.dirname(page), link))


def relative(page, to):
    return os.path.relpath(to, os.path.dirname(page))


class Site:
    def __init__(self):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                                capture_output=True, text=True).stdout.splitlines()
        self.files = {path for path in listed if (ROOT / path).is_file()}
        self.folders = {str(parent) for path in self.files for parent in Path(path).parents} - {"."}
        self.text = {path: (ROOT / path).read_text() for path in sorted(self.files)
                     if path.endswith((".h", ".cpp", ".cu", ".md"))}
        self.first = self.text.pop("docs/index.md")
        self.documents = [path for path in self.text if path.endswith(".md")]
        self.tags = {cells[0]: cells[1:] for _, cells in rows(self.text["docs/equations.md"])
                     if re.fullmatch(TAG, cells[0])}
        self.places = defaultdict(list)  # tag -> [(path, line, name in the index, True if it is in a test)]
        for path, text in self.text.items():
            if not path.endswith(".md"):
                self.find_tags(path, text)
        linked = {target(page, link) for page in self.documents for link, _ in LINK.findall(self.text[page])}
        self.copied = {path for path in linked & self.files if Path(path).suffix in COPIED}
        self.linked_folders = linked & self.folders
        self.code = {path for path in self.files if path.endswith(".h")} | {
            path for path in (linked & self.files) - self.copied if not path.endswith(".md")} | {
            place[0] for places in self.places.values() for place in places}

    def find_tags(self, path, text):
        tests = path.startswith("tests/")
        for at, line in enumerate(text.split("\n"), 1):
            code, _, comment = line.partition("//")
            for tag in dict.fromkeys(tag for group in re.findall(GROUP, comment) for tag in re.findall(TAG, group)):
                if tag in self.tags and (code.strip() or tests):
                    self.places[tag].append((path, at, f"{path}:{at}", tests))
        for found in TEST.finditer(text) if tests else ():
            for tag in re.findall(r"(?<![A-Z])[A-Z]+_\d+(?=_|$)", found[2]):
                if (tag := tag.replace("_", "-")) in self.tags:
                    at = text.count("\n", 0, found.start()) + 1
                    self.places[tag].append((path, at, ".".join(found.groups()), True))

    def document(self, page, text, at):
        """Returns a document whose links lead to pages of the site. `at` is the path of the document in the site."""
        def link(found):
            path = target(page, found[1])
            if path in self.folders:
                return f"]({relative(at, 'files.md')}#{anchors(f'# {path}/').pop()})"
            if path not in self.files:
                return found[0]
            path = path.replace("docs/index.md", "index.md")
            return f"]({relative(at, path)}{'.md' if path in self.code else found[2]})"
        listed = page.startswith("docs/") or f"({relative('docs/x', page)})" in self.first.split("## ", 1)[1]
        return ("" if listed else "---\norphan: true\n---\n") + LINK.sub(link, text)

    def source(self, path):
        """Returns the page for a file of code. Declarations and tags have anchors; includes and tags are links."""
        text = (ROOT / path).read_text()
        try:
            lexer = get_lexer_for_filename("x.cpp" if path.endswith((".h", ".cu")) else path, stripnl=False)
        except ClassNotFound:
            lexer = TextLexer(stripnl=False)
        cited = {place[1] for places in self.places.values() for place in places if place[0] == path}
        seen, lines = {""}, []
        for at, (line, plain) in enumerate(zip(highlight(text, lexer, HtmlFormatter(nowrap=True)).split("\n"),
                                               text.split("\n")), 1):
            line = PLAIN.sub(r"\1", line)
            if (header := re.match(r'#include "(.*)"', plain)) and header[1] in self.code:
                line = line.replace(header[1], f'<a href="{relative(path, header[1])}.html">{header[1]}</a>')
            line = re.sub(GROUP, lambda group: re.sub(TAG, lambda tag: (
                f'<a href="{relative(path, "tags.html")}#{tag[0]}">{tag[0]}</a>' if tag[0] in self.tags else tag[0]),
                group[0]), line)
            name = "".join(filter(None, found.groups())) if (found := NAME.match(plain)) else ""
            ids = [f"L{at}"] * (at in cited) + [name] * (path.endswith(".h") and name not in seen)
            seen.add(name)
            lines.append("".join(f'<a id="{i}"></a>' for i in ids) + line)
        return (f"---\norphan: true\nhide-toc: true\n---\n# {path}\n\n````````{{raw}} html\n"
                '<div class="highlight source"><pre>' + "\n".join(lines) + "</pre></div>\n````````\n")

    def equations(self):
        formulas = {tag: (path, said[0]) for path, text in self.text.items() if path.endswith(".h")
                    for tag, said in backward.formulas(text).items()}
        parts = ["# Index of equations\n\nEach tag of [equations.md](docs/equations.md) with its source, its statement "
                 'in the header, the lines that evaluate it, and its tests.\n\n```{raw} html\n<dl class="tags">']
        for tag, (source, says) in self.tags.items():
            source = re.sub(r"(derivations/\w+|folding)\.md", r'<a href="docs/\1.html">\g<0></a>', html.escape(source))
            parts.append(f'<dt id="{tag}">{tag}</dt>\n<dd>{html.escape(says)}<br>source: {source}')
            if tag in formulas:
                path, said = formulas[tag]
                parts.append(f'<br><a href="{path}.html">{path}</a>: <code>{html.escape(said)}</code>')
            for title, tests in (("evaluated in", False), ("tests", True)):
                links = [f'<a href="{path}.html#L{at}">{name}</a>'
                         for path, at, name, in_test in self.places[tag] if in_test == tests]
                parts.append(f"<br>{title}: {', '.join(links) or 'none'}")
            parts.append("</dd>")
        return "\n".join(parts) + "\n</dl>\n```\n"

    def listing(self):
        folders = {folder: [] for folder in sorted(self.linked_folders | {os.path.dirname(path) for path in self.code})}
        for path in sorted(self.code):
            folders[os.path.dirname(path)].append(f"* [{os.path.basename(path)}]({path}.md)\n")
        return "# Files\n\n" + "\n".join(f"## {folder}/\n\n{''.join(files)}" for folder, files in folders.items())

    def index(self):
        """Returns the first page. The lists in docs/index.md become the site's table of contents."""
        text = self.document("docs/index.md", self.first, "index.md")
        text += "* [Index of equations](tags.md): sources, statements, lines and tests\n* [Files](files.md)\n"
        for part in text.split("\n## ")[1:]:
            entries = "\n".join(link for link, _ in LINK.findall(part))
            text += f"\n```{{toctree}}\n:hidden:\n:caption: {part.splitlines()[0]}\n\n{entries}\n```\n"
        return text

    def pages(self):
        yield from ((page, self.document(page, self.text[page], page)) for page in self.documents)
        yield from ((f"{path}.md", self.source(path)) for path in sorted(self.code))
        yield from (("tags.md", self.equations()), ("files.md", self.listing()), ("index.md", self.index()))


def main():
    out, site = Path(sys.argv[1]), Site()
    pages = dict(site.pages())
    for path in (*pages, *site.copied):
        (out / path).parent.mkdir(parents=True, exist_ok=True)
    for path, text in pages.items():
        if not (out / path).exists() or (out / path).read_text() != text:  # Sphinx rereads only changed files
            (out / path).write_text(text)
    for path in site.copied:
        shutil.copyfile(ROOT / path, out / path)
    for path in out.rglob("*"):
        if path.is_file() and str(path.relative_to(out)) not in pages.keys() | site.copied:
            path.unlink()


if __name__ == "__main__":
    main()
