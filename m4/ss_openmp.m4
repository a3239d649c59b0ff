# SS_OPENMP: OpenMP in the C compiler, for the threads inside a kernel; required. Sets OPENMP_CFLAGS,
# which is for compiling and for linking.
AC_DEFUN([SS_OPENMP], [
    AC_OPENMP
    AS_IF([test -z "$OPENMP_CFLAGS" && test "$ac_cv_prog_c_openmp" != "none needed"],
        [AC_MSG_ERROR([the C compiler $CC knows no OpenMP (use GCC, or Clang with libomp: Debian package gcc or libomp-dev)])])
])
