/* Folders, and names of files inside them. */
#ifndef SS_CORE_FOLDER_H
#define SS_CORE_FOLDER_H

#include "core/status.h"

#include <stddef.h>

/* out = "DIR/NAME". Errors: SS_ERR_INVALID when it does not fit into `room` bytes. */
enum ss_status ss_folder_join(char *out, size_t room, const char *dir, const char *name);

/* 1 if DIR/NAME exists, whatever it is. */
int ss_folder_has(const char *dir, const char *name);

/* out: NAME in the folder of the file PATH, cut where it does not fit. 1 if that exists. */
int ss_folder_beside(char *out, size_t room, const char *path, const char *name);

/* Create a folder and its parents where they are missing. Errors: SS_ERR_IO, SS_ERR_INVALID. */
enum ss_status ss_folder_make(const char *path);

/* Remove a folder and all that is in it; what cannot be removed stays. */
void ss_folder_remove(const char *path);

#endif
