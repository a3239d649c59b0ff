# `make html`: build docs/ and the library's reference as a site with search, in site/html/index.html of the build
# folder. Requires Sphinx, MyST, Breathe, Furo and Doxygen.
EXTRA_DIST += docs/site/build docs/site/conf.py docs/site/contents.md docs/site/header_comments docs/site/reference.rst
CLEAN_DIRS += site
html-local: starstep
	$(SHELL) $(srcdir)/docs/site/build '$(abs_top_srcdir)' ./starstep '$(PACKAGE_VERSION)' '$(abs_top_builddir)/site'
