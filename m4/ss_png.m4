# SS_PNG: libpng, to read images, and zlib, which libpng needs and which also decompresses NumPy archives. Sets
# PNG_CFLAGS, PNG_LIBS.
AC_DEFUN([SS_PNG], [
    SS_ARG_WITH([png], [libpng 1.6 or later; required])
    SS_PKG([png], [PNG], [libpng], [1.6], [required],
        [libpng 1.6 or later is required and was not found (Debian package libpng-dev, Spack spec libpng, Guix package libpng, or module load libpng).])
    ss_libs=$LIBS
    ss_cppflags=$CPPFLAGS
    LIBS="$PNG_LIBS $LIBS"
    CPPFLAGS="$PNG_CFLAGS $CPPFLAGS"
    AC_CHECK_HEADER([zlib.h], [], [AC_MSG_ERROR([zlib.h is missing (Debian package zlib1g-dev, Spack spec zlib, Guix package zlib, or module load zlib).])])
    AC_CHECK_FUNC([inflateInit2_], [ss_zlib=], [ss_zlib=-lz])
    PNG_LIBS="$PNG_LIBS $ss_zlib"
    LIBS=$ss_libs
    CPPFLAGS=$ss_cppflags
])
