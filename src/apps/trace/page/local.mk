# The page of `starstep trace export`, compiled into the program so that it needs no file at run time.
PAGE_FILES = src/apps/trace/page/page.html src/apps/trace/page/page.css src/apps/trace/page/data.js \
	src/apps/trace/page/timeline.js src/apps/trace/page/use.js src/apps/trace/page/page.js
EXTRA_DIST += $(PAGE_FILES) src/apps/trace/page/embed.sh
nodist_libstarstep_cli_la_SOURCES = src/apps/trace/page_text.c
CLEANFILES += src/apps/trace/page_text.c

src/apps/trace/page_text.c: $(PAGE_FILES) src/apps/trace/page/embed.sh
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	  $(SHELL) $(srcdir)/src/apps/trace/page/embed.sh $(srcdir)/src/apps/trace/page >$@.tmp && mv $@.tmp $@
