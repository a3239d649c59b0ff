"""Sphinx's configuration of the documentation site; `make html` (docs/site/local.mk) runs it.

The pages are those of the source tree, with the README as the first one. The library's reference comes from the comments
in its installed headers: Breathe runs Doxygen, whose filter turns plain C comments into Doxygen's.
"""

import os

project = "starstep"
author = "the starstep developers"
version = release = os.environ["STARSTEP_VERSION"]
source = os.environ["STARSTEP_SOURCE"]

extensions = ["myst_parser", "breathe"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # a page may go from H1 to H3
root_doc = "index"

smartquotes = False  # "--option" is no dash
html_theme = "furo"
html_title = f"starstep {version}"
html_show_copyright = False
html_show_sourcelink = False

breathe_default_project = "library"
breathe_projects_source = {
    "library": (
        source,
        ["src/api/starstep.h", "src/apps/starstep-cli.h", "graphs/model.h", "src/layers/layers.h", "src/core/status.h", "src/core/message.h"],
    )
}
breathe_doxygen_config_options = {
    "INPUT_FILTER": f"sh {source}/docs/site/header_comments",
    "OPTIMIZE_OUTPUT_FOR_C": "YES",
    "JAVADOC_AUTOBRIEF": "NO",
    "AUTOLINK_SUPPORT": "NO",
    "MACRO_EXPANSION": "YES",
    "WARN_LOGFILE": os.environ["STARSTEP_DOXYGEN_LOG"],
    "PREDEFINED": "__attribute__(x)=",
}
breathe_show_include = False
