# SS_CUDA: NVIDIA's toolkit, version 12 or later: the compiler nvcc, the run-time library and cuBLASLt;
# optional, and used only if SS_GPU finds everything that GPUs need. Sets CUDA_CFLAGS, CUDA_LIBS, NVCC,
# NVCCFLAGS, NVCC_HOST and CUDA_ARCH_FLAGS; have_cuda; for messages ss_cuda_root, ss_cuda_version, ss_cuda_arch and
# ss_cuda_lack.
AC_DEFUN([SS_CUDA], [
    AC_REQUIRE([AC_PROG_CXX])
    SS_ARG_WITH([cuda], [CUDA toolkit 12 or later, for NVIDIA GPUs])
    AC_ARG_WITH([cuda-arch],
        [AS_HELP_STRING([--with-cuda-arch=LIST],
            [compute capabilities to compile for, the last one also as PTX for newer GPUs @<:@80 90@:>@])],
        [], [with_cuda_arch="80 90"])
    AC_ARG_ENABLE([hostgpu],
        [AS_HELP_STRING([--enable-hostgpu],
            [emulate a GPU on the CPU, for tests only; cannot be installed @<:@no@:>@])],
        [], [enable_hostgpu=no])
    AC_ARG_VAR([CUDA_CFLAGS], [C compiler flags for CUDA])
    AC_ARG_VAR([CUDA_LIBS], [linker flags for CUDA])
    AC_ARG_VAR([NVCC], [CUDA compiler])
    AC_ARG_VAR([NVCCFLAGS], [CUDA compiler flags @<:@-O3 -lineinfo, and compressed kernels if nvcc supports it@:>@])

    have_cuda=no
    ss_cuda_root=
    AS_IF([test "$with_cuda" != no], [
        ss_folders=$ss_dir
        AS_IF([test -z "$ss_dir"], [
            AC_PATH_PROGS([NVCC], [nvcc], [],
                [$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:${CUDA_PATH:-/usr/local/cuda}/bin:/usr/local/cuda/bin])
            ss_folders="$CUDA_HOME $CUDA_PATH /usr/local/cuda /usr"
            # The toolkit is the folder above nvcc, whose path may be a symbolic link.
            AS_IF([test -n "$NVCC"], [
                ss_path=`readlink -f "$NVCC"`
                ss_path=`AS_DIRNAME(["$ss_path"])`
                ss_folders="`AS_DIRNAME(["$ss_path"])` $ss_folders"])])
        SS_NVIDIA_FIND([cuda], [CUDA], [cuda_runtime.h], [cublasLt cudart], [$ss_folders])
        AS_IF([test -n "$ss_dir"], [AC_PATH_PROGS([NVCC], [nvcc], [], [$ss_cuda_root/bin])])
        AS_IF([test -z "$ss_cuda_root"],
            [ss_cuda_lack="header cuda_runtime.h, libraries cudart and cublasLt"],
            [SS_NVIDIA_CHECK([cuda], [CUDA], [cuda_runtime.h], [int v; cudaRuntimeGetVersion(&v)],
                 [CUDART_VERSION / 1000], [CUDART_VERSION % 1000 / 10], [0], [12])
             ss_cuda_version=$ss_major.$ss_minor
             # Without a StarPU built with CUDA nothing is compiled: skip the check, which takes seconds.
             AS_IF([test $have_cuda = yes && test $ss_starpu_cuda = yes && test "$enable_hostgpu" != yes],
                 [SS_NVCC])])])
    AC_SUBST([CUDA_ARCH_FLAGS])
    AC_SUBST([NVCC_HOST])
    AC_SUBST([with_cuda_arch])
])

# SS_NVCC: set have_cuda=no if nvcc cannot compile for the requested GPUs with this C++ compiler.
AC_DEFUN([SS_NVCC], [
    ss_cuda_arch=`AS_ECHO(["$with_cuda_arch"]) | sed -e 's/sm_//g' -e 's/[[,;]]/ /g'`
    CUDA_ARCH_FLAGS=
    for ss_arch in $ss_cuda_arch; do
        CUDA_ARCH_FLAGS="$CUDA_ARCH_FLAGS -gencode arch=compute_$ss_arch,code=sm_$ss_arch"
    done
    CUDA_ARCH_FLAGS="$CUDA_ARCH_FLAGS -gencode arch=compute_$ss_arch,code=compute_$ss_arch"
    # nvcc 12.8 and later can compress kernels to a fifth of their size; they are decompressed when loaded.
    AS_IF([test "${NVCCFLAGS+set}" != set],
        [NVCCFLAGS="-O3 -lineinfo"
         AS_IF([test -n "$NVCC" && $NVCC --help 2>/dev/null | grep -e --compress-mode >/dev/null],
             [NVCCFLAGS="$NVCCFLAGS --compress-mode=size"])])
    # -ccbin takes the name of a program, not a command with arguments.
    for NVCC_HOST in $CXX; do
        AS_CASE([$NVCC_HOST], [*ccache|*distcc], [], [break])
    done
    AS_IF([test -z "$NVCC"],
        [have_cuda=no
         ss_cuda_lack="its compiler nvcc"],
        [AC_MSG_CHECKING([whether $NVCC with $CXX compiles for $ss_cuda_arch])
         cat >conftest.cu <<SS_END
#include <cstdio>
__global__ void twice(float *x) { x[[threadIdx.x]] *= 2; }
void launch(float *x) { twice<<<1, 32>>>(x); }
SS_END
         ss_try="$NVCC -std=c++17 $NVCCFLAGS $CUDA_ARCH_FLAGS -ccbin $NVCC_HOST -c conftest.cu -o conftest.$ac_objext"
         AS_ECHO(["$ss_try"]) >&AS_MESSAGE_LOG_FD
         AS_IF([$ss_try >&AS_MESSAGE_LOG_FD 2>&1],
             [AC_MSG_RESULT([yes])],
             [AC_MSG_RESULT([no])
              have_cuda=no
              ss_cuda_lack="an nvcc that compiles for $ss_cuda_arch with CXX=$CXX (see config.log)"])
         rm -f conftest.cu conftest.$ac_objext])
])
