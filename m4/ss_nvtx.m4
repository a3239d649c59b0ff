# SS_NVTX: ranges for Nsight: headers alone, of CUDA's toolkit or in a folder of their own; optional, and
# looked for only where GPUs are used. After SS_GPU. Sets NVTX_CFLAGS; have_nvtx; the conditional and
# define HAVE_NVTX.
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
        AC_SEARCH_LIBS([dlopen], [dl]) # with which NVTX loads the tool
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
            [SS_MISSING([nvtx], [optional], [NVTX 3 (nvtx3/nvToolsExt.h, of the CUDA toolkit) was not found, or no CUDA to use it with: Nsight will show no ranges (--with-nvtx=DIR)])])])
    AS_IF([test $have_nvtx = yes], [AC_DEFINE([HAVE_NVTX], [1], [NVTX's headers are there])])
    AM_CONDITIONAL([HAVE_NVTX], [test $have_nvtx = yes])
])
