# SS_CHECK: the unit test framework of `make check`. Sets CHECK_CFLAGS, CHECK_LIBS and the
# conditional HAVE_CHECK. Optional: without it the library and the program build, the tests do not.
AC_DEFUN([SS_CHECK], [
    SS_ARG_WITH([check], [Check, for make check])
    SS_PKG([check], [CHECK], [check], [0.10], [optional],
        [Check was not found: make check will run nothing (Debian package check, Spack spec check, Guix package check).])
    AM_CONDITIONAL([HAVE_CHECK], [test $have_check = yes])
])
