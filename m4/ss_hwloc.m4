# SS_HWLOC: hwloc, for the machine's topology, by which threads are bound to cores. Sets HWLOC_CFLAGS, HWLOC_LIBS.
AC_DEFUN([SS_HWLOC], [
    SS_ARG_WITH([hwloc], [hwloc 2 or later; required])
    SS_PKG([hwloc], [HWLOC], [hwloc], [2.0], [required],
        [hwloc 2 or later is required and was not found (Debian package libhwloc-dev, Spack spec hwloc, Guix package hwloc, or module load hwloc).])
])
