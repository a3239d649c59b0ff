/* Folders and paths of files inside them. */
#ifndef SS_CORE_FOLDER_H
#define SS_CORE_FOLDER_H

#include "core/status.h"

#include <stddef.h>

/* out = "DIR/NAME". Errors: SS_ERR_INVALID when it does not fit into `capacity` bytes. */
enum ss_status ss_folder_join(char *out, size_t capacity, const char *dir, const char *name);

/* Return 1 if DIR/NAME exists, as a file of any type. */
int ss_folder_has(const char *dir, const char *name);

/* out = NAME in the folder of the file PATH, truncated to `capacity` bytes. Returns 1 if that file
 * exists. */
int ss_folder_beside(char *out, size_t capacity, const char *path, const char *name);

/* Create a folder and its missing parents. Errors: SS_ERR_IO, SS_ERR_INVALID. */
enum ss_status ss_folder_make(const char *path);

/* Remove a folder and its content. Entries that cannot be removed are left without a message. */
void ss_folder_remove(const char *path);

#endif
