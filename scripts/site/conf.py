"""Configures Sphinx for the site. scripts/site.sh runs Sphinx, and pages.py makes the pages."""
import html

from docutils import nodes

project = "foldgrad"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "foldgrad"
html_static_path = ["static"]
html_css_files = ["katex/katex.min.css", "site.css"]
html_js_files = ["katex/katex.min.js", "equations.js"]
html_math_renderer = "katex"
html_copy_source = False
html_show_copyright = False
html_show_search_summary = False  # summaries are fetched, which browsers refuse for pages from the file system
highlight_language = "none"       # for blocks without a language
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False    # "$A and $B" is not an equation
myst_heading_anchors = 4


def equation(self, node):
    tag = "div" if node.tagname == "math_block" else "span"
    self.body.append(f'<{tag} class="equation">{html.escape(node.astext())}</{tag}>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("katex", (equation, None), (equation, None))
