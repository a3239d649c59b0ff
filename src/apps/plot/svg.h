/* SVG 1.1 writer into an atomic file. Errors are those of the file's commit. */
#ifndef SS_APPS_PLOT_SVG_H
#define SS_APPS_PLOT_SVG_H

#include "core/atomic_file.h"

/* Write the document's begin (white background, with the classes of plot.c) and end. */
void ss_svg_begin(struct ss_atomic_file *f, double width, double height, const char *title);
void ss_svg_end(struct ss_atomic_file *f);

void ss_svg_line(struct ss_atomic_file *f, const char *class_name, double x1, double y1, double x2,
                 double y2);
/* Write text. anchor: start, middle or end. turn: rotation in degrees around (x, y). */
void ss_svg_text(struct ss_atomic_file *f, const char *class_name, const char *anchor, double x,
                 double y, double turn, const char *text);

/* Write escaped text for content and attributes; bytes not allowed in XML become "?". */
void ss_svg_escape(struct ss_atomic_file *f, const char *text);

#endif
