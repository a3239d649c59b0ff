/* Identify the program and library files of this process by content hash, to compare builds
 * across processes independent of the install path. */
#ifndef SS_CORE_PROGRAM_H
#define SS_CORE_PROGRAM_H

#include <stddef.h>

enum { SS_PROGRAM_PATH = 1024, SS_PROGRAM_HASH = 65 };

struct ss_program_file {
    char path[SS_PROGRAM_PATH];
    char sha256[SS_PROGRAM_HASH]; /* of the content, hexadecimal; or "unreadable" */
};

struct ss_program {
    struct ss_program_file program;
    /* libstarstep, if it is a shared library. If it is linked statically, the path is "" and the
     * hash "none". */
    struct ss_program_file library;
};

/* Return the path of the running program, for starting it again while this process lives. It is
 * the file name, which process lists show, or a /proc path if that name now refers to another
 * file. */
void ss_program_path(char *path, size_t capacity);

/* Identify program and library. Reads both files (some milliseconds). An unreadable file is not
 * an error. */
void ss_program_identify(struct ss_program *out);

/* Hash any file, in the same format. */
void ss_program_hash_file(const char *path, struct ss_program_file *out);

#endif
