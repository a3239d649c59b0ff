# SS_CUDNN: NVIDIA's convolutions, version 9 or later, in a folder of their own, in CUDA's or in the
# system's. Sets CUDNN_CFLAGS, CUDNN_LIBS; have_cudnn; for messages ss_cudnn_version and ss_cudnn_lack.
AC_DEFUN([SS_CUDNN], [
    SS_ARG_WITH([cudnn], [cuDNN 9 or later, needed for CUDA])
    AC_ARG_VAR([CUDNN_CFLAGS], [C compiler flags for cuDNN])
    AC_ARG_VAR([CUDNN_LIBS], [linker flags for cuDNN])
    have_cudnn=no
    ss_cudnn_lack="header cudnn.h, library cudnn"
    AS_IF([test "$with_cudnn" != no && test $have_cuda = yes], [
        SS_NVIDIA_FIND([cudnn], [CUDNN], [cudnn.h], [cudnn],
            [${ss_dir:-$CUDNN_HOME $CUDNN_PATH $ss_folders}])
        AS_IF([test -n "$ss_cudnn_root"], [
            SS_NVIDIA_CHECK([cudnn], [CUDNN], [cudnn.h], [cudnnGetVersion()],
                [CUDNN_MAJOR], [CUDNN_MINOR], [CUDNN_PATCHLEVEL], [9])])])
])
