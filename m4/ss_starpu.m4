# SS_STARPU: the task runtime, version 1.4 or later.
# Sets STARPU_CFLAGS and STARPU_LIBS, and for the summary ss_starpu_version, ss_starpu_fxt,
# ss_starpu_blocking and ss_starpu_cuda (yes or no), ss_starpu_nmaxbufs (a number).
AC_DEFUN([SS_STARPU], [
    SS_ARG_WITH([starpu], [StarPU 1.4 or later; required])
    SS_PKG([starpu], [STARPU], [starpu-1.4 starpu-1.5], [1.4], [required],
        [StarPU 1.4 or later is required and was not found.
  From here:    ./quickstart deps builds it, then configure with --with-starpu=\$PWD/.deps-prefix
  Spack:        spack install starpu@1.4: +fxt, then --with-starpu=\$(spack location -i starpu)
  Guix:         guix shell starpu
  Module:       module load starpu (or set PKG_CONFIG_PATH to the folder of starpu-1.4.pc)
  Debian 12's libstarpu-dev is 1.3, which is too old.])

    AC_SUBST([STARPU_BIN], [$ss_starpu_prefix/bin]) # starpu_fxt_tool and others, for tests
    ss_cppflags=$CPPFLAGS; ss_libs=$LIBS; ss_cflags=$CFLAGS
    CPPFLAGS="$CPPFLAGS $STARPU_CFLAGS"; LIBS="$STARPU_LIBS $LIBS"; CFLAGS="$CFLAGS $SANITIZE_CFLAGS"
    AC_MSG_CHECKING([whether a program with StarPU links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <starpu.h>]],
            [[struct starpu_task *t = starpu_task_get_current();
              starpu_task_end_dep_add(t, 1); starpu_task_end_dep_release(t);]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_FAILURE([$ss_starpu_module was found, but a program with it does not link])])
    # Added by a patch in tools/packaging/starpu, with CUDA only
    AC_CHECK_FUNCS([starpu_cuda_set_error_handler])
    SS_STARPU_FEATURE([fxt], [FxT traces], [defined STARPU_USE_FXT])
    SS_STARPU_FEATURE([blocking], [drivers that block when idle], [!defined STARPU_NON_BLOCKING_DRIVERS])
    SS_STARPU_FEATURE([cuda], [CUDA], [defined STARPU_USE_CUDA])
    AC_COMPUTE_INT([ss_starpu_nmaxbufs], [STARPU_NMAXBUFS], [[#include <starpu_config.h>]],
        [ss_starpu_nmaxbufs=0])
    CPPFLAGS=$ss_cppflags; LIBS=$ss_libs; CFLAGS=$ss_cflags

    AS_IF([test $ss_starpu_fxt = no],
        [AC_MSG_WARN([this StarPU was built without FxT: no traces (build it with --with-fxt)])])
    AS_IF([test $ss_starpu_blocking = no && test $ss_starpu_cuda = no],
        [AC_MSG_WARN([this StarPU was built without --enable-blocking-drivers: idle CPU workers poll and take time from OpenMP threads])])
])

# SS_STARPU_FEATURE(NAME, WHAT, CONDITION): set ss_starpu_NAME (yes or no) by CONDITION on StarPU's configuration
# header.
AC_DEFUN([SS_STARPU_FEATURE], [
    AC_MSG_CHECKING([whether StarPU has $2])
    AC_PREPROC_IFELSE([AC_LANG_SOURCE([[
#include <starpu_config.h>
#if !($3)
# error not there
#endif
]])], [ss_starpu_$1=yes], [ss_starpu_$1=no])
    AC_MSG_RESULT([$ss_starpu_$1])
])
