# SS_JANSSON: Jansson, for JSON in safetensors headers and logs. Sets JANSSON_CFLAGS, JANSSON_LIBS.
AC_DEFUN([SS_JANSSON], [
    SS_ARG_WITH([jansson], [Jansson 2.10 or later; required])
    SS_PKG([jansson], [JANSSON], [jansson], [2.10], [required],
        [Jansson 2.10 or later is required and was not found (Debian package libjansson-dev, Spack spec jansson, Guix package jansson, or module load jansson).])
])
