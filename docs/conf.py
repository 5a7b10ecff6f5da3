"""Sphinx: MyST pages, API from docstrings, warnings are errors (`make docs`)."""

import tomllib
from pathlib import Path

project = "tuplet"
author = "The tuplet authors"
release = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]["version"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = "tuplet"
autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_transform_request, set_score_request, set_output, get_metadata_routing"
}
autodoc_member_order = "bysource"
default_role = "code"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3


def escape_bars(app, what, name, obj, options, lines):
    """Absolute values in docstrings, |x|, are no substitutions; text between backticks is left alone."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("`")
            parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
            lines[i] = "`".join(parts)


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars)
