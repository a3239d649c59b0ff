#include "apps/plot/svg.h"

#include <string.h>

static const char style[] =
    "text{font-family:'Liberation Sans',Arial,Helvetica,sans-serif;font-size:12px;fill:#222}"
    ".title{font-size:16px;font-weight:bold}.head{font-size:13px;font-weight:bold}"
    ".tick{fill:#555;font-size:11px}.grid{stroke:#e4e4e4}.axis{stroke:#777}"
    ".curve{fill:none;stroke-width:1.6;stroke-linejoin:round}";

void ss_svg_begin(struct ss_atomic_file *f, double width, double height, const char *title)
{
    ss_atomic_print(f,
                    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                    "viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>",
                    width, height, width, height);
    ss_svg_escape(f, title);
    ss_atomic_print(f, "</title>\n<style>%s</style>\n", style);
    ss_atomic_print(f, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", width, height);
}

void ss_svg_end(struct ss_atomic_file *f)
{
    ss_atomic_print(f, "</svg>\n");
}

void ss_svg_line(struct ss_atomic_file *f, const char *class_name, double x1, double y1, double x2,
                 double y2)
{
    ss_atomic_print(f, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                    class_name, x1, y1, x2, y2);
}

void ss_svg_text(struct ss_atomic_file *f, const char *class_name, const char *anchor, double x,
                 double y, double turn, const char *text)
{
    ss_atomic_print(f, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\"", class_name,
                    anchor, x, y);
    if (turn != 0)
        ss_atomic_print(f, " transform=\"rotate(%.0f %.1f %.1f)\"", turn, x, y);
    ss_atomic_print(f, ">");
    ss_svg_escape(f, text);
    ss_atomic_print(f, "</text>\n");
}

void ss_svg_escape(struct ss_atomic_file *f, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        const char *name = c == '&'    ? "&amp;"
                           : c == '<'  ? "&lt;"
                           : c == '>'  ? "&gt;"
                           : c == '"'  ? "&quot;"
                           : c < 0x20  ? "?"
                           : c >= 0x7f ? "?"
                                       : NULL;
        ss_atomic_write(f, name ? name : text, name ? strlen(name) : 1);
    }
}
