# SS_OPENMP: OpenMP in the C compiler, for the threads of a kernel; required. Sets OPENMP_CFLAGS, for
# compiling and linking.
AC_DEFUN([SS_OPENMP], [
    AC_OPENMP
    AS_IF([test -z "$OPENMP_CFLAGS" && test "$ac_cv_prog_c_openmp" != "none needed"],
        [AC_MSG_ERROR([the C compiler $CC does not support OpenMP (use GCC, or Clang with libomp: Debian package gcc or libomp-dev)])])
])
