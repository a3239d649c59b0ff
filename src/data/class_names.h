/* Class names from a text file with one name per line, in label order. */
#ifndef SS_DATA_CLASS_NAMES_H
#define SS_DATA_CLASS_NAMES_H

/* Read the names. Returns NULL, without reporting an error, if the file is missing or does not have
 * exactly `classes` non-empty lines: class names are optional. The caller frees all names with one
 * free(names). */
char **ss_class_names_read(const char *path, int classes);

#endif
