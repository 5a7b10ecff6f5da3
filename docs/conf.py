"""Sphinx: MyST pages, API from docstrings, tutorials and examples run at build, warnings are errors (`make docs`)."""

import logging
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
for name in ("tuplet", "openTSNE"):  # a theme sets all loggers to INFO: tutorials would log into the build
    logging.getLogger(name).setLevel(logging.WARNING)

project = "tuplet"
author = "The tuplet authors"
copyright = "the tuplet authors, MIT licence"
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["version"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "command_pages",
    "docstrings",
    "long_names",
]
exclude_patterns = ["_build", "_ext", "**/sg_execution_times.rst"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["tuplet.css"]
html_favicon = "_static/icon.svg"
html_theme = "furo"
html_title = f"tuplet {release}"
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_sphinx = False
suppress_warnings = ["sphinx_gallery.space_in_filename"]  # it means the whole path: of a checkout in "my work/" too
autosummary_generate = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_transform_request, set_score_request, set_output, get_metadata_routing"
}
autodoc_member_order = "bysource"
default_role = "code"
smartquotes = False  # --labels is an option, not a dash
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
sphinx_gallery_conf = {
    "examples_dirs": ["../tutorials", "../examples"],
    "gallery_dirs": ["tutorials", "gallery"],
    "filename_pattern": r"\.py",  # all of them run
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": (),
    "default_thumb_file": str(HERE / "images" / "map-cora.png"),
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # that page wants scripts from the network
    "show_signature": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "remove_config_comments": True,
}
