# Public API: installed headers and their functions. A program includes <starstep.h> with
# -I$(includedir)/starstep (pkg-config).
libstarstep_la_SOURCES += \
	src/api/train.c src/api/openmp_places.c src/api/openmp_places.h
EXTRA_DIST += src/api/exports.sym src/api/exports_cuda.sym

apiincludedir = $(includedir)/starstep
apiinclude_HEADERS = src/api/starstep.h
coreincludedir = $(apiincludedir)/core
coreinclude_HEADERS = src/core/status.h src/core/message.h
layersincludedir = $(apiincludedir)/layers
layersinclude_HEADERS = src/layers/layers.h
graphsincludedir = $(apiincludedir)/graphs
graphsinclude_HEADERS = graphs/model.h

# Tests the installed library; see docs/library.md.
installcheck-local:
	@$(AM_TESTS_ENVIRONMENT) CC='$(CC)' CXX='$(CXX)' PKG_CONFIG='$(PKG_CONFIG)' \
	  CFLAGS_FOR_BUILD='$(SANITIZE_CFLAGS)' bash $(srcdir)/tests/api/installcheck.sh '$(DESTDIR)' '$(bindir)' '$(libdir)'
