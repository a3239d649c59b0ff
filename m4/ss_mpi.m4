# SS_MPI: message passing between ranks, optional. The plain C compiler is used, with the flags that
# the MPI compiler wrapper (of --with-mpi=DIR, $MPICC or $PATH) or else pkg-config reports, so that
# library and launcher come from the same installation. Sets MPI_CFLAGS, MPI_LIBS, MPIEXEC and the
# conditional and define HAVE_MPI; for the summary ss_mpi_source.
AC_DEFUN([SS_MPI], [
    SS_ARG_WITH([mpi], [MPI, for more than one rank])
    AC_ARG_VAR([MPICC], [MPI compiler wrapper, used only for its flags])
    AC_ARG_VAR([MPIEXEC], [launcher of MPI programs, for the tests])
    AC_ARG_VAR([MPI_CFLAGS], [C compiler flags for MPI])
    AC_ARG_VAR([MPI_LIBS], [linker flags for MPI])
    have_mpi=no
    ss_mpi_source=none
    AS_IF([test "$with_mpi" != no], [
        AS_IF([test -n "$ss_dir"], [ss_path=$ss_dir/bin], [ss_path=$PATH])
        # When cross-compiling, the build machine's wrapper reports the wrong libraries.
        AS_IF([test -n "$ss_dir" || test "$cross_compiling" != yes],
            [AC_PATH_PROGS([MPICC], [mpicc], [], [$ss_path])])
        AS_IF([test -n "$MPI_LIBS"],
                [ss_mpi_source="MPI_LIBS"],
            [test -n "$MPICC" && ss_show=`$MPICC -show 2>/dev/null`],
                [ss_mpi_source=$MPICC
                 set dummy $ss_show; shift; shift
                 for ss_flag; do
                     AS_CASE([$ss_flag],
                         [-I*|-D*], [MPI_CFLAGS="$MPI_CFLAGS $ss_flag"],
                         [-pthread], [MPI_CFLAGS="$MPI_CFLAGS $ss_flag"; MPI_LIBS="$MPI_LIBS $ss_flag"],
                         [-L*|-l*|-Wl,*], [MPI_LIBS="$MPI_LIBS $ss_flag"])
                 done],
            [test -z "$ss_dir"],
            [for ss_module in ompi-c mpich mpi-c; do
                 AS_IF([test -z "$MPI_LIBS" && $PKG_CONFIG --exists $ss_module],
                     [MPI_CFLAGS=`$PKG_CONFIG --cflags $ss_module`
                      MPI_LIBS=`$PKG_CONFIG --libs $ss_module`
                      ss_mpi_source="pkg-config $ss_module"])
             done])

        ss_cppflags=$CPPFLAGS; ss_libs=$LIBS
        CPPFLAGS="$CPPFLAGS $MPI_CFLAGS"; LIBS="$MPI_LIBS $LIBS"
        AC_MSG_CHECKING([whether a program with MPI links])
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]],
                [[int given; MPI_Request request;
                  MPI_Init_thread(0, 0, MPI_THREAD_MULTIPLE, &given);
                  MPI_Iallreduce(MPI_IN_PLACE, &given, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);]])],
            [AS_IF([test "$ss_mpi_source" != none], [have_mpi=yes])])
        AC_MSG_RESULT([$have_mpi])
        CPPFLAGS=$ss_cppflags; LIBS=$ss_libs
        AS_IF([test -n "$MPICC"],
            [ss_path=`AS_DIRNAME(["$MPICC"])`$PATH_SEPARATOR$ss_path])
        AC_PATH_PROGS([MPIEXEC], [mpiexec mpirun], [], [$ss_path])
    ])
    AS_IF([test $have_mpi = yes],
        [AC_DEFINE([HAVE_MPI], [1], [MPI is available])],
        [MPI_CFLAGS= MPI_LIBS= MPIEXEC=
         AS_IF([test "$with_mpi" != no],
             [SS_MISSING([mpi], [optional],
                 [no working MPI was found: this build has one rank only (Debian packages libopenmpi-dev and openmpi-bin, Spack spec openmpi, Guix package openmpi, or module load openmpi). Set its folder with --with-mpi=DIR.])])])
    AM_CONDITIONAL([HAVE_MPI], [test $have_mpi = yes])
])
