/* Properties of folders: writability, free space and file system. */
#ifndef SS_APPS_DOCTOR_FOLDERS_H
#define SS_APPS_DOCTOR_FOLDERS_H

#include <stddef.h>

/* Returns 1 if a file can be created, filled and removed in the folder (a missing folder is
 * created as a run would do); else 0, with the reason in `why`. */
int ss_folder_try(const char *folder, char *why, size_t capacity);
/* The file system of a folder, or of its nearest existing parent: "Lustre". A constant string. */
const char *ss_folder_system(const char *folder);
/* Returns 1 if the folder's file system is of a kind shared between nodes. */
int ss_folder_shared(const char *folder);
/* Free GiB; 0: unknown. */
double ss_folder_space(const char *folder);

#endif
