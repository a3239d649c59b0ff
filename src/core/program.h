/* The files that this process runs from, by content: to tell whether two processes run the same
 * build, wherever it is installed. */
#ifndef SS_CORE_PROGRAM_H
#define SS_CORE_PROGRAM_H

#include <stddef.h>

enum { SS_PROGRAM_PATH = 1024, SS_PROGRAM_HASH = 65 };

struct ss_program_file {
    char path[SS_PROGRAM_PATH];
    char sha256[SS_PROGRAM_HASH]; /* of the content, in hexadecimal; "unreadable" */
};

struct ss_program {
    struct ss_program_file program;
    /* libstarstep as a shared library. Linked into the program: the path is "" and the hash
     * "none". */
    struct ss_program_file library;
};

/* The file that this process runs, by its name, so that process lists show it; by /proc if another file has
 * that name by now. To start it again while this process lives. */
void ss_program_path(char *path, size_t room);

/* Reads both files: some milliseconds. A file that cannot be read is no error. */
void ss_program_identify(struct ss_program *out);

/* The same of any file. */
void ss_program_hash_file(const char *path, struct ss_program_file *out);

#endif
