# SS_CUDNN: cuDNN 9 or later, in its own folder, in CUDA's or in the system's. Sets CUDNN_CFLAGS, CUDNN_LIBS;
# have_cudnn; for messages ss_cudnn_version and ss_cudnn_lack.
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

# SS_CUDNN_DESCRIBES: for --enable-hostgpu: check that cuDNN loads and creates descriptors without a GPU.
AC_DEFUN([SS_CUDNN_DESCRIBES], [
    ss_cppflags=$CPPFLAGS; ss_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $CUDA_CFLAGS $CUDNN_CFLAGS"; LIBS="$CUDNN_LIBS $LIBS"
    AC_MSG_CHECKING([whether cuDNN makes plans without a GPU])
    AC_RUN_IFELSE([AC_LANG_PROGRAM([[#include <cudnn.h>]], [[
            cudnnBackendDescriptor_t d;
            return cudnnGetVersion() < 90800 ||
                cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d)]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([--enable-hostgpu: cuDNN $ss_cudnn_version ($CUDNN_LIBS) does not load or is older than 9.8, which the emulation needs for its plans; use another one with --with-cudnn=DIR])],
        [AC_MSG_RESULT([not tried])])
    CPPFLAGS=$ss_cppflags; LIBS=$ss_libs
])
