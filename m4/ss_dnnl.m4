# SS_DNNL: oneDNN's C library, version 2 or 3. Debian 12 ships no pkg-config file, so the header and
# the library are searched directly. Optional. Sets DNNL_CFLAGS, DNNL_LIBS and, for the summary,
# ss_dnnl_version.
AC_DEFUN([SS_DNNL], [
    SS_ARG_WITH([onednn], [oneDNN 2 or 3: faster convolutions on CPUs, other than 3x3 ones with stride 1])
    AC_ARG_VAR([DNNL_CFLAGS], [C compiler flags for oneDNN])
    AC_ARG_VAR([DNNL_LIBS], [linker flags for oneDNN @<:@-ldnnl@:>@])
    AS_IF([test -n "$ss_dir"], [
        DNNL_CFLAGS=${DNNL_CFLAGS:-"-I$ss_dir/include"}
        for ss_lib in "$ss_dir"/lib "$ss_dir"/lib64 "$ss_dir"/lib/*-linux-gnu*; do
            AS_IF([test -z "$DNNL_LIBS" && test -e "$ss_lib/libdnnl.so"],
                [DNNL_LIBS="-L$ss_lib -ldnnl"
                 SS_ADD_RPATH([DNNL_LIBS], [$ss_lib])])
        done])
    AS_IF([test -z "$ss_dir"], [DNNL_LIBS=${DNNL_LIBS:-"-ldnnl"}])

    have_onednn=no ss_other=
    ss_dnnl_version=none
    ss_cppflags=$CPPFLAGS; ss_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $DNNL_CFLAGS"; LIBS="$DNNL_LIBS $LIBS"
    # If a folder was given, accept no other installation.
    AS_IF([test "$with_onednn" != no && { test -z "$ss_dir" || { test -e "$ss_dir/include/dnnl.h" && test -n "$DNNL_LIBS"; }; }], [
        AC_CHECK_HEADER([dnnl.h],
            [AC_CHECK_FUNC([dnnl_version], [have_onednn=yes])])])
    AS_IF([test $have_onednn = yes], [
        AC_COMPUTE_INT([ss_major], [DNNL_VERSION_MAJOR], [[#include <dnnl_version.h>]], [ss_major=0])
        AC_COMPUTE_INT([ss_minor], [DNNL_VERSION_MINOR], [[#include <dnnl_version.h>]], [ss_minor=0])
        AC_COMPUTE_INT([ss_patch], [DNNL_VERSION_PATCH], [[#include <dnnl_version.h>]], [ss_patch=0])
        ss_dnnl_version=$ss_major.$ss_minor.$ss_patch
        AS_IF([test $ss_major -lt 2], [have_onednn=no],
            [test $ss_major -eq 2], [AC_CHECK_FUNC([dnnl_memory_desc_init_by_tag], [], [ss_other=yes])],
            [AC_CHECK_FUNC([dnnl_memory_desc_create_with_tag], [], [ss_other=yes])])
        AS_IF([test -n "$ss_other"],
            [AC_MSG_ERROR([oneDNN: the header dnnl.h has version $ss_dnnl_version, the library has another; select one installation with --with-onednn=DIR])])])
    CPPFLAGS=$ss_cppflags; LIBS=$ss_libs
    AS_IF([test $have_onednn = yes],
        [AC_DEFINE([HAVE_DNNL], [1], [oneDNN is available])],
        [DNNL_CFLAGS= DNNL_LIBS=
         SS_MISSING([onednn], [optional],
            [oneDNN 2 or later was not found; it makes some convolutions on CPUs faster (header dnnl.h, library dnnl; Debian package libdnnl-dev, Spack spec onednn, Guix package onednn, or module load onednn). Set its folder with --with-onednn=DIR.])])
    AM_CONDITIONAL([HAVE_DNNL], [test $have_onednn = yes])
])
