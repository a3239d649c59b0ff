# SS_SUMMARY: print the configuration as a table.
AC_DEFUN([SS_SUMMARY], [
    AS_IF([test $have_mpi = yes],
        [ss_ranks="yes ($ss_mpi_source, launcher ${MPIEXEC:-not found})"],
        [ss_ranks="no, one rank only"])
    AS_IF([test $have_check = yes], [ss_tests=yes], [ss_tests="no (Check is missing)"])
    AS_IF([test $ss_starpu_blocking = yes], [ss_idle=sleep], [ss_idle=poll])
    ss_gpus=no
    AS_IF([test $have_gpu = yes], [
        ss_gpus="CUDA $ss_cuda_version, cuDNN $ss_cudnn_version"
        AS_IF([test $enable_hostgpu = yes],
                [ss_gpus="emulated on the CPU: for tests only (headers of $ss_gpus)"],
            [test $have_nccl = yes], [ss_gpus="$ss_gpus, NCCL $ss_nccl_version, for sm: $ss_cuda_arch"],
            [ss_gpus="$ss_gpus, no NCCL, for sm: $ss_cuda_arch"])])
    cat <<SS_END

$PACKAGE_NAME $PACKAGE_VERSION
  compiler         $CC $CFLAGS
  warnings         errors: $enable_werror
  sanitizers       $enable_sanitizers
  StarPU           $ss_starpu_version (FxT traces: $ss_starpu_fxt, idle workers: $ss_idle, buffers a task: $ss_starpu_nmaxbufs)
  oneDNN           $ss_dnnl_version
  GPUs             $ss_gpus
  Nsight ranges    $have_nvtx
  hwloc            $ss_hwloc_version
  libjpeg-turbo    $ss_jpeg_version
  libpng           $ss_png_version
  MPI              $ss_ranks
  tests            $ss_tests
  installs below   $prefix

Next: make && make check && make install
SS_END
])
