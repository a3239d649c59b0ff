# SS_SANITIZE: --enable-sanitizers=address,undefined, or thread. Sets SANITIZE_CFLAGS, for compiling and
# linking, with line numbers for the reports, and ARCHER, a library for the OpenMP runtime.
AC_DEFUN([SS_SANITIZE], [
    AC_ARG_ENABLE([sanitizers],
        [AS_HELP_STRING([--enable-sanitizers=LIST],
            [build with the compiler's sanitizers, for example address,undefined @<:@no@:>@])],
        [AS_IF([test "$enableval" = yes], [enable_sanitizers=address,undefined])],
        [enable_sanitizers=no])
    SANITIZE_CFLAGS=
    AS_IF([test "$enable_sanitizers" != no], [
        SANITIZE_CFLAGS="-fsanitize=$enable_sanitizers -fno-sanitize-recover=all -fno-omit-frame-pointer -g1"
        ss_cflags=$CFLAGS
        CFLAGS="$CFLAGS $SANITIZE_CFLAGS"
        AC_MSG_CHECKING([whether $CC supports the sanitizers $enable_sanitizers])
        AC_LINK_IFELSE([AC_LANG_PROGRAM()],
            [AC_MSG_RESULT([yes])],
            [AC_MSG_RESULT([no])
             AC_MSG_ERROR([$CC does not link with -fsanitize=$enable_sanitizers])])
        CFLAGS=$ss_cflags
        AC_DEFINE([SS_SANITIZED], [1], [built with sanitizers])])
    # Archer connects OpenMP to the thread sanitizer. Without it each barrier of libomp is reported as a race.
    ARCHER=
    AS_CASE([$enable_sanitizers], [*thread*], [
        AC_MSG_CHECKING([for libarcher.so of $CC])
        ARCHER=`$CC -print-resource-dir 2>/dev/null`/../../libarcher.so
        AS_IF([test -e "$ARCHER"], [ARCHER=`realpath "$ARCHER"`],
            [AC_MSG_RESULT([no])
             AC_MSG_ERROR([the thread sanitizer needs CC=clang with its libomp (Debian packages clang, libomp-dev, libclang-rt-dev), and a StarPU built with it; ./quickstart --tsan build does all of it])])
        AC_MSG_RESULT([$ARCHER])])
    AC_SUBST([ARCHER])
    AM_CONDITIONAL([THREAD_SANITIZED], [test -n "$ARCHER"])
    AC_SUBST([SANITIZE_CFLAGS])
    AM_CONDITIONAL([SANITIZED], [test "$enable_sanitizers" != no])
])
