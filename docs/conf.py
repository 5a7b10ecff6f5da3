"""Sphinx: MyST pages, API from docstrings, warnings are errors (`make docs`)."""

import tomllib
from pathlib import Path

project = "tuplet"
author = "The tuplet authors"
release = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = "tuplet"
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "code"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
