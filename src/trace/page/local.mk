# The page of `starstep trace export`, compiled into the program so that it needs no file at run time.
PAGE_FILES = src/trace/page/page.html src/trace/page/page.css src/trace/page/data.js \
	src/trace/page/timeline.js src/trace/page/use.js src/trace/page/page.js
EXTRA_DIST += $(PAGE_FILES) src/trace/page/embed.sh
nodist_libstarstep_la_SOURCES = src/trace/page_text.c
CLEANFILES += src/trace/page_text.c

src/trace/page_text.c: $(PAGE_FILES) src/trace/page/embed.sh
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	  $(SHELL) $(srcdir)/src/trace/page/embed.sh $(srcdir)/src/trace/page >$@.tmp && mv $@.tmp $@
