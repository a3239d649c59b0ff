# SS_GPU: enable GPU support if CUDA, cuDNN and a StarPU built with CUDA are all available.
# After SS_STARPU, SS_CUDA, SS_CUDNN and SS_NCCL. Sets have_gpu, GPU_LIBS, NVCC_WARN_FLAGS,
# CXX_WARN_FLAGS and the conditionals and defines HAVE_CUDA, HAVE_NCCL and HOSTGPU (SS_HOSTGPU).
AC_DEFUN([SS_GPU], [
    have_gpu=no
    ss_lack=
    AS_IF([test $have_cuda = no],
            [ss_lack="the CUDA toolkit: $ss_cuda_lack (module load cuda, or NVIDIA's packages), --with-cuda=DIR"],
        [test $have_cudnn = no],
            [ss_lack="cuDNN 9: $ss_cudnn_lack (module load cudnn, or NVIDIA's packages), --with-cudnn=DIR"],
        [test $ss_starpu_cuda = no],
            [ss_lack="a StarPU built with CUDA (./quickstart --cuda deps builds one), --with-starpu=DIR"],
        [have_gpu=yes])
    AS_CASE([$have_gpu:$with_cuda:$with_cudnn:$ss_cuda_root],
        [yes:*], [],
        [no:no:no:*|no:no:guess:*|no:guess:no:*], [],
        [no:guess:guess:], [],
        [no:guess:guess:*], [AC_MSG_WARN([GPU support is disabled. Missing: $ss_lack])],
        [AC_MSG_ERROR([CUDA was requested. Missing: $ss_lack])])
    AS_IF([test "$enable_hostgpu" = yes && test $have_gpu = no],
        [AC_MSG_ERROR([--enable-hostgpu needs CUDA's headers, cuDNN and a StarPU with CUDA. Missing: $ss_lack])])

    # The emulation replaces NVIDIA's libraries except cuDNN, which creates plans from the description of
    # a GPU alone.
    AS_IF([test "$enable_hostgpu" = yes], [
        CUDA_LIBS= NCCL_LIBS=
        SS_CUDNN_DESCRIBES])
    AS_IF([test $have_gpu = no], [have_nccl=no])
    AS_IF([test $have_nccl = no], [
        AS_CASE([$have_gpu:$enable_hostgpu:$with_nccl],
            [*:no], [],
            [yes:no:guess], [AC_MSG_WARN([NCCL was not found: all-reduces between GPUs go through MPI and the host (module load nccl, or NVIDIA's packages; --with-nccl=DIR)])],
            [*:guess], [],
            [AC_MSG_ERROR([NCCL was requested, but header nccl.h and library nccl were not found, or GPU support is disabled])])
        NCCL_CFLAGS= NCCL_LIBS=])
    AS_IF([test $have_gpu = no], [CUDA_CFLAGS= CUDA_LIBS= CUDNN_CFLAGS= CUDNN_LIBS=])

    # nvcc's host code needs libstdc++.
    GPU_LIBS=
    AS_IF([test $have_gpu = yes], [GPU_LIBS="$CUDNN_LIBS $NCCL_LIBS $CUDA_LIBS -lstdc++"])
    AC_SUBST([GPU_LIBS])

    NVCC_WARN_FLAGS="--compiler-options=-Wall,-Wextra"
    CXX_WARN_FLAGS="-Wall -Wextra"
    AS_IF([test "$enable_werror" = yes],
        [NVCC_WARN_FLAGS="$NVCC_WARN_FLAGS -Werror all-warnings"
         CXX_WARN_FLAGS="$CXX_WARN_FLAGS -Werror"])
    AC_SUBST([NVCC_WARN_FLAGS])
    AC_SUBST([CXX_WARN_FLAGS])

    AS_IF([test $have_gpu = yes], [AC_DEFINE([HAVE_CUDA], [1], [CUDA, cuDNN and StarPU with CUDA are available])])
    AS_IF([test $have_nccl = yes], [AC_DEFINE([HAVE_NCCL], [1], [NCCL is available])])
    AS_IF([test "$enable_hostgpu" = yes],
        [AC_DEFINE([SS_HOSTGPU], [1], [GPUs are emulated on the CPU, for tests])])
    AM_CONDITIONAL([HAVE_CUDA], [test $have_gpu = yes])
    AM_CONDITIONAL([HAVE_NCCL], [test $have_nccl = yes])
    AM_CONDITIONAL([HOSTGPU], [test "$enable_hostgpu" = yes])
])
