# SS_NVTX: NVTX, for ranges in Nsight. Header-only, from the CUDA toolkit or its own folder; optional, and
# searched only if GPUs are used. After SS_GPU. Sets NVTX_CFLAGS; have_nvtx; the conditional and define
# HAVE_NVTX.
AC_DEFUN([SS_NVTX], [
    SS_ARG_WITH([nvtx], [headers of NVTX 3, for ranges in Nsight])
    AC_ARG_VAR([NVTX_CFLAGS], [C compiler flags for NVTX])
    have_nvtx=no
    AS_IF([test "$with_nvtx" != no && test $have_gpu = yes], [
        for ss_path in ${ss_dir:+"$ss_dir" "$ss_dir/include" "$ss_dir/nvtx/include"} \
            "$ss_cuda_root/include" "$ss_cuda_root/nvtx/include" "$ss_cuda_root/../nvtx/include"; do
            AS_IF([test -z "$NVTX_CFLAGS" && test -e "$ss_path/nvtx3/nvToolsExt.h"], [NVTX_CFLAGS=-I$ss_path])
        done
        AS_CASE([$NVTX_CFLAGS], [-I/usr/include], [NVTX_CFLAGS=])
        AC_SEARCH_LIBS([dlopen], [dl]) # NVTX loads the tool with dlopen
        ss_cppflags=$CPPFLAGS
        CPPFLAGS="$CPPFLAGS $NVTX_CFLAGS $CUDA_CFLAGS"
        AC_MSG_CHECKING([for nvtx3/nvToolsExt.h])
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <nvtx3/nvToolsExt.h>]],
            [[nvtxDomainRangePop(nvtxDomainCreateA("starstep"));]])], [have_nvtx=yes])
        AC_MSG_RESULT([$have_nvtx])
        CPPFLAGS=$ss_cppflags])
    AS_IF([test $have_nvtx = no], [
        NVTX_CFLAGS=
        AS_CASE([$have_gpu:$with_nvtx], [no:guess], [],
            [SS_MISSING([nvtx], [optional], [NVTX 3 (nvtx3/nvToolsExt.h, of the CUDA toolkit) was not found, or GPU support is disabled: Nsight will show no ranges (--with-nvtx=DIR)])])])
    AS_IF([test $have_nvtx = yes], [AC_DEFINE([HAVE_NVTX], [1], [NVTX's headers are available])])
    AM_CONDITIONAL([HAVE_NVTX], [test $have_nvtx = yes])
])
