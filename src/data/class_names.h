/* Names of classes, as a text file has them: one a line, in the order of labels. */
#ifndef SS_DATA_CLASS_NAMES_H
#define SS_DATA_CLASS_NAMES_H

/* Read them; NULL where the file is not there, or has other than `classes` lines that are not empty
 * (nothing is reported: they are for people). The caller frees the names together, by
 * free(names). */
char **ss_class_names_read(const char *path, int classes);

#endif
