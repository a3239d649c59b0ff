/* SVG 1.1 into a file that appears whole or not at all. Errors are those of the file's commit. */
#ifndef SS_REPORT_SVG_H
#define SS_REPORT_SVG_H

#include "core/atomic_file.h"

/* The document's begin (white, with the classes of plot.c) and end. */
void ss_svg_begin(struct ss_atomic_file *f, double width, double height, const char *title);
void ss_svg_end(struct ss_atomic_file *f);

void ss_svg_line(struct ss_atomic_file *f, const char *class_name, double x1, double y1, double x2,
                 double y2);
/* anchor: start, middle or end. turn: degrees around (x, y). */
void ss_svg_text(struct ss_atomic_file *f, const char *class_name, const char *anchor, double x,
                 double y, double turn, const char *text);

/* Escaped for content and attributes; bytes that XML may not hold become "?". */
void ss_svg_escape(struct ss_atomic_file *f, const char *text);

#endif
