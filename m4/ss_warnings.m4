# SS_KNOWN_FLAGS(VARIABLE, FLAGS): append those FLAGS to VARIABLE that the C compiler accepts without a warning.
AC_DEFUN([SS_KNOWN_FLAGS], [
    ss_cflags=$CFLAGS
    for ss_flag in $2; do
        CFLAGS="$ss_cflags -Werror $ss_flag"
        AC_MSG_CHECKING([whether $CC supports $ss_flag])
        AC_COMPILE_IFELSE([AC_LANG_SOURCE([[extern int known;]])],
            [AC_MSG_RESULT([yes]); $1="$$1 $ss_flag"],
            [AC_MSG_RESULT([no])])
    done
    CFLAGS=$ss_cflags
    AC_SUBST([$1])
])

# SS_WARNINGS: the warning flags of this project, as far as the compiler supports them, and
# --enable-werror. Sets WARN_CFLAGS. Headers of libraries are included with -isystem (see
# SS_SYSTEM_INCLUDES), so that warnings only concern this project's code.
AC_DEFUN([SS_WARNINGS], [
    AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors @<:@no@:>@])],
        [], [enable_werror=no])
    WARN_CFLAGS=
    SS_KNOWN_FLAGS([WARN_CFLAGS],
        [-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wswitch-enum])
    AS_IF([test "$enable_werror" = yes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
])

# SS_SYSTEM_INCLUDES(VARIABLES): turn -IDIR into -isystem DIR in each.
AC_DEFUN([SS_SYSTEM_INCLUDES], [
    m4_foreach_w([ss_variable], [$1],
        [ss_variable[]=`AS_ECHO(["$ss_variable"]) | sed -e 's,^-I,-isystem ,' -e 's, -I, -isystem ,g'`
    ])
])
