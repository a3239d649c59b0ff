# SS_NVIDIA: helpers shared by the macro files of NVIDIA's libraries, which have no pkg-config files and
# several layouts: a toolkit (include, lib64, targets/*), the system (include, lib/TRIPLET), a Python
# package (folders include and lib, libraries only as lib*.so.N), or the folder that contains all of
# these packages (site-packages/nvidia, with a subfolder for each).

# SS_NVIDIA_LIB_FLAG(LIBRARY, FOLDER): set ss_flag to the linker flag of the library, empty if it is not in
# that folder.
AC_DEFUN([SS_NVIDIA_LIB_FLAG], [
    ss_flag=
    AS_IF([test -e "$2/lib$1.so"], [ss_flag=-l$1], [
        for ss_file in "$2/lib$1.so".*; do
            AS_IF([test -e "$ss_file"], [ss_flag=-l:`AS_BASENAME(["$ss_file"])`])
        done])
])

# SS_NVIDIA_FIND(NAME, VARIABLE, HEADER, LIBRARIES, FOLDERS)
# Find the first of FOLDERS that contains HEADER and all of LIBRARIES. Sets ss_NAME_root (empty if not found),
# and VARIABLE_CFLAGS and VARIABLE_LIBS unless the user has set them.
AC_DEFUN([SS_NVIDIA_FIND], [
    AS_CASE([$host_cpu], [aarch64], [ss_target=sbsa-linux], [ss_target=$host_cpu-linux])
    ss_$1_root=
    for ss_top in $5; do
        for ss_root in "$ss_top" "$ss_top/$1" "$ss_top"/cu[[0-9]]*; do
            ss_include=
            for ss_path in "$ss_root/include" "$ss_root/include/$host_cpu-linux-gnu" \
                "$ss_root/targets/$ss_target/include"; do
                AS_IF([test -z "$ss_include" && test -e "$ss_path/$3"], [ss_include=$ss_path])
            done
            for ss_path in "$ss_root/lib64" "$ss_root/lib" "$ss_root/lib/$host_cpu-linux-gnu" \
                "$ss_root/targets/$ss_target/lib"; do
                ss_found=
                for ss_lib in $4; do
                    SS_NVIDIA_LIB_FLAG([$ss_lib], [$ss_path])
                    AS_IF([test -n "$ss_flag"], [ss_found="$ss_found $ss_flag"],
                        [ss_found=; break])
                done
                AS_IF([test -n "$ss_include" && test -n "$ss_found" && test -z "$ss_$1_root"], [
                    ss_$1_root=$ss_root
                    SS_NVIDIA_FLAGS([$2])])
            done
        done
    done
])

# SS_NVIDIA_FLAGS(VARIABLE): set VARIABLE_CFLAGS and _LIBS from ss_include, ss_path and ss_found. The
# system's folders are omitted, because naming them would change their search order.
AC_DEFUN([SS_NVIDIA_FLAGS], [
    AS_CASE([${$1_CFLAGS:-$ss_include}],
        [/usr/include], [],
        [/*], [$1_CFLAGS=-I$ss_include])
    AS_IF([test -z "$$1_LIBS"], [
        AS_CASE([$ss_path],
            [/usr/lib|/usr/lib64|/usr/lib/*], [$1_LIBS=$ss_found],
            [$1_LIBS="-L$ss_path$ss_found"
             SS_ADD_RPATH([$1_LIBS], [$ss_path])])])
])

# SS_NVIDIA_CHECK(NAME, VARIABLE, HEADER, CALL, MAJOR, MINOR, PATCH, LEAST)
# Check that a program with HEADER and CALL links and that the major version is at least LEAST. Sets have_NAME
# (yes or no), ss_NAME_version (the header's MAJOR.MINOR.PATCH) and, on failure, ss_NAME_lack: what is missing.
AC_DEFUN([SS_NVIDIA_CHECK], [
    have_$1=no
    ss_$1_version=
    ss_cppflags=$CPPFLAGS; ss_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $CUDA_CFLAGS $$2_CFLAGS"; LIBS="$$2_LIBS $CUDA_LIBS $LIBS"
    AC_MSG_CHECKING([whether a program with $3 and $$2_LIBS links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <$3>]], [[$4;]])], [have_$1=yes])
    AC_MSG_RESULT([$have_$1])
    AS_IF([test $have_$1 = yes], [
        AC_COMPUTE_INT([ss_major], [$5], [[#include <$3>]], [ss_major=0])
        AC_COMPUTE_INT([ss_minor], [$6], [[#include <$3>]], [ss_minor=0])
        AC_COMPUTE_INT([ss_patch], [$7], [[#include <$3>]], [ss_patch=0])
        ss_$1_version=$ss_major.$ss_minor.$ss_patch
        AS_IF([test $ss_major -lt $8],
            [have_$1=no
             ss_$1_lack="version $8 or later of it (this is $ss_$1_version)"])],
        [ss_$1_lack="a program that links with it (see config.log)"])
    CPPFLAGS=$ss_cppflags; LIBS=$ss_libs
])
