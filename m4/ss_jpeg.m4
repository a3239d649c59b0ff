# SS_JPEG: libjpeg-turbo, to read images. Sets JPEG_CFLAGS, JPEG_LIBS and, for the summary, ss_jpeg_version.
# The IJG's library has a .pc file of the same name, but cannot decode a region of an image.
AC_DEFUN([SS_JPEG], [
    SS_ARG_WITH([jpeg], [libjpeg-turbo 1.5 or later; required])
    m4_define([ss_jpeg_message],
        [libjpeg-turbo 1.5 or later is required and was not found (Debian package libjpeg62-turbo-dev, Spack spec libjpeg-turbo, Guix package libjpeg-turbo, or module load libjpeg-turbo).])
    SS_PKG([jpeg], [JPEG], [libjpeg], [1.5], [required], [ss_jpeg_message])
    ss_libs=$LIBS
    LIBS="$JPEG_LIBS $LIBS"
    AC_CHECK_FUNC([jpeg_crop_scanline], [], [AC_MSG_ERROR([ss_jpeg_message
    Found libjpeg $ss_jpeg_version, which is not libjpeg-turbo.])])
    LIBS=$ss_libs
])
