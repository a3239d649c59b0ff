/* Folders as the program meets them: may they be written, how much room have they, what are they
 * on? */
#ifndef SS_DOCTOR_FOLDERS_H
#define SS_DOCTOR_FOLDERS_H

#include <stddef.h>

/* 1 if a file can be made, filled and removed in it (or, where it is missing, after it is made as a
 * run would make it); else 0 and why. */
int ss_folder_try(const char *folder, char *why, size_t room);
/* The kind of file system of a folder, or of the nearest one above that is there: "Lustre". A
 * constant string. */
const char *ss_folder_system(const char *folder);
/* 1 if nodes share file systems of that kind. */
int ss_folder_shared(const char *folder);
/* Free GiB; 0: not known. */
double ss_folder_room(const char *folder);

#endif
