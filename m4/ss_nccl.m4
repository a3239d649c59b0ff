# SS_NCCL: NCCL 2 or later, for collectives between GPUs, in its own folder, in CUDA's or in the system's;
# optional. Sets NCCL_CFLAGS, NCCL_LIBS; have_nccl; for messages ss_nccl_version.
AC_DEFUN([SS_NCCL], [
    SS_ARG_WITH([nccl], [NCCL 2, for several GPUs])
    AC_ARG_VAR([NCCL_CFLAGS], [C compiler flags for NCCL])
    AC_ARG_VAR([NCCL_LIBS], [linker flags for NCCL])
    have_nccl=no
    AS_IF([test "$with_nccl" != no && test $have_cuda = yes], [
        SS_NVIDIA_FIND([nccl], [NCCL], [nccl.h], [nccl],
            [${ss_dir:-$NCCL_HOME $NCCL_PATH $ss_folders}])
        AS_IF([test -n "$ss_nccl_root"], [
            SS_NVIDIA_CHECK([nccl], [NCCL], [nccl.h], [int v; ncclGetVersion(&v)],
                [NCCL_MAJOR], [NCCL_MINOR], [NCCL_PATCH], [2])])])
])
