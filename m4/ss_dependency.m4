# Helpers shared by the macro files of all dependencies.

# SS_ARG_WITH(NAME, WHAT)
# Define the option --with-NAME=guess|yes|no|DIR. Sets $with_NAME to guess, yes, no or an absolute
# folder, and $ss_dir to that folder or empty. yes and DIR fail if the dependency is missing; guess
# continues without it if it is optional.
AC_DEFUN([SS_ARG_WITH], [
    AC_ARG_WITH([$1],
        [AS_HELP_STRING([--with-$1=guess|yes|no|DIR], [$2 @<:@guess@:>@])],
        [], [with_$1=guess])
    ss_dir=
    AS_CASE([$with_$1],
        [yes|no|guess], [],
        [ss_dir=`cd "$with_$1" 2>/dev/null && pwd`
         AS_IF([test -z "$ss_dir"],
             [AC_MSG_ERROR([--with-$1=$with_$1: not a folder (use guess, yes, no or a folder)])])
         with_$1=$ss_dir])
    AC_SUBST([with_$1])
])

# SS_MISSING(NAME, REQUIRED, MESSAGE)
# Handle a dependency NAME that was not found: an error if REQUIRED is "required", or if the option is yes
# or a folder; nothing if it is no; a warning otherwise.
AC_DEFUN([SS_MISSING], [
    AS_CASE([$2:$with_$1],
        [required:*], [AC_MSG_ERROR([$3])],
        [*:no], [],
        [*:guess], [AC_MSG_WARN([$3])],
        [AC_MSG_ERROR([$3])])
])

# SS_ADD_RPATH(VARIABLE, LIBDIR)
# Add a run path for a library outside the system's folders, so that LD_LIBRARY_PATH is not needed.
AC_DEFUN([SS_ADD_RPATH], [
    AS_CASE([$2],
        [''|/lib|/lib/*|/lib64|/usr/lib|/usr/lib/*|/usr/lib64], [],
        [$1="$$1 -Wl,-rpath,$2"])
])

# SS_PKG(NAME, VARIABLE, MODULES, VERSION, REQUIRED, MESSAGE)
# Find the first of the pkg-config MODULES that is at least VERSION, below --with-NAME=DIR if a folder
# was given. Sets VARIABLE_CFLAGS, VARIABLE_LIBS, ss_NAME_module, ss_NAME_version (for the summary) and
# have_NAME (yes or no).
AC_DEFUN([SS_PKG], [
    AC_REQUIRE([PKG_PROG_PKG_CONFIG])
    AS_IF([test -z "$PKG_CONFIG"],
        [AC_MSG_ERROR([pkg-config is missing (Debian package pkg-config)])])
    ss_pkg_config_path=$PKG_CONFIG_PATH
    AS_IF([test -n "$ss_dir"], [
        for ss_lib in "$ss_dir"/lib "$ss_dir"/lib64 "$ss_dir"/lib/*-linux-gnu* "$ss_dir"/share; do
            AS_IF([test -d "$ss_lib/pkgconfig"],
                [PKG_CONFIG_PATH=$ss_lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}])
        done])
    export PKG_CONFIG_PATH
    have_$1=no
    AS_IF([test "$with_$1" != no], [
        ss_$1_module=
        for ss_module in $3; do
            AS_IF([test -z "$ss_$1_module" && $PKG_CONFIG --exists "$ss_module >= $4"],
                [ss_$1_module=$ss_module])
        done
        # If a folder was given, accept no other installation.
        AS_CASE([$ss_dir:`$PKG_CONFIG --variable=pcfiledir $ss_$1_module 2>/dev/null`],
            [:*], [],
            ["$ss_dir:$ss_dir"/*], [],
            [ss_$1_module=missing-below-$ss_dir])
        # The .pc file names the prefix of the build, where headers and libraries would be searched.
        ss_libdir=`$PKG_CONFIG --variable=libdir $ss_$1_module 2>/dev/null`
        AS_CASE([$ss_dir:$ss_libdir:`cd "$ss_libdir" 2>/dev/null && pwd -P`/],
            [:*|*::*], [],
            [*:"`cd "$ss_dir" && pwd -P`"/*], [],
            [AC_MSG_ERROR([--with-$1=$ss_dir: it was built for another folder and moved ($ss_$1_module.pc has libdir=$ss_libdir); move it back, or rebuild it for this folder])])
        # If the user sets VARIABLE_CFLAGS and VARIABLE_LIBS, no .pc file is needed.
        AS_IF([test -z "$ss_$1_module"], [for ss_$1_module in $3; do break; done])
        PKG_CHECK_MODULES([$2], [$ss_$1_module >= $4],
            [have_$1=yes
             ss_$1_version=`$PKG_CONFIG --modversion $ss_$1_module 2>/dev/null || echo unknown`
             ss_$1_prefix=`$PKG_CONFIG --variable=prefix $ss_$1_module 2>/dev/null`
             SS_ADD_RPATH([$2_LIBS], [`$PKG_CONFIG --variable=libdir $ss_$1_module 2>/dev/null`])],
            [have_$1=no])
    ])
    PKG_CONFIG_PATH=$ss_pkg_config_path
    AS_IF([test $have_$1 = no], [SS_MISSING([$1], [$5], [$6])])
])
