# The program and its command line, in libstarstep-cli: the library does not contain it.
APPS_SOURCES += src/apps/starstep-cli.h
appsinclude_HEADERS = src/apps/starstep-cli.h
appsincludedir = $(apiincludedir)
