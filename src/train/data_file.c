#include "train/data_file.h"
#include "core/json_file.h"
#include "core/json_value.h"
#include "core/log.h"
#include "core/number.h"
#include "data/imagefolder.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 16 << 20, MOST_SIDE = 1 << 14, VERSION = 1 };
static const char format[] = "starstep-data";

static json_t *of_numbers(const float *x, int n)
{
    json_t *out = json_array();
    for (int i = 0; i < n; i++)
        ss_json_append(&out, ss_json_number(ss_number_of_float(x[i])));
    return out;
}

/* The names of the classes, or their number if they have none. */
static json_t *of_classes(const struct ss_dataset *d)
{
    if (!ss_dataset_class(d, 0))
        return json_integer(d->classes);
    json_t *out = json_array();
    for (int i = 0; i < d->classes; i++)
        ss_json_append(&out, ss_json_text(ss_dataset_class(d, i)));
    return out;
}

enum ss_status ss_data_file_write(const struct ss_dataset *d, const char *path)
{
    return ss_json_save(json_pack("{s:s,s:i,s:o,s:i,s:i,s:i,s:[i,i],s:o,s:o,s:o}", "format", format,
                                  "version", VERSION, "name", ss_json_text(d->name), "channels",
                                  d->channels, "height", d->height, "width", d->width, "least",
                                  d->least.height, d->least.width, "mean",
                                  of_numbers(d->mean, d->channels), "std",
                                  of_numbers(d->std, d->channels), "classes", of_classes(d)),
                        path);
}

/* A file being read, with its path for messages. */
struct reading {
    const char *path;
    const json_t *file;
};

static enum ss_status wrong(const struct reading *r, const char *key, const char *wanted)
{
    return ss_fail(SS_ERR_FORMAT, "%s: \"%s\" must be %s", r->path, key, wanted);
}

static enum ss_status read_count(const struct reading *r, const char *key, int most, int *out)
{
    const json_t *value = json_object_get(r->file, key);
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > most)
        return ss_fail(SS_ERR_FORMAT, "%s: \"%s\" must be a whole number from 1 to %d", r->path,
                       key, most);
    *out = (int)json_integer_value(value);
    return SS_OK;
}

static enum ss_status read_numbers(const struct reading *r, const char *key, int n, double least,
                                   const char *wanted, double *out)
{
    const json_t *value = json_object_get(r->file, key);
    if (!json_is_array(value) || json_array_size(value) != (size_t)n)
        return wrong(r, key, wanted);
    for (int i = 0; i < n; i++) {
        const json_t *x = json_array_get(value, (size_t)i);
        if (!json_is_number(x) || !(json_number_value(x) >= least && json_number_value(x) <= 1e6))
            return wrong(r, key, wanted);
        out[i] = json_number_value(x);
    }
    return SS_OK;
}

static enum ss_status read_names(const struct reading *r, struct ss_data_file *out)
{
    const json_t *value = json_object_get(r->file, "classes");
    if (!json_is_array(value))
        return read_count(r, "classes", SS_IMAGEFOLDER_MAX_CLASSES, &out->classes);
    const size_t n = json_array_size(value);
    if (n < 1 || n > SS_IMAGEFOLDER_MAX_CLASSES)
        return wrong(r, "classes", "a number, or a list of names");
    out->classes = (int)n;
    out->names = calloc(n, sizeof *out->names);
    if (!out->names)
        return ss_fail_memory("names of classes", n * sizeof *out->names);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(value, i));
        if (!name)
            return wrong(r, "classes", "a number, or a list of names");
        if (!(out->names[i] = strdup(name)))
            return ss_fail_memory("names of classes", strlen(name));
    }
    return SS_OK;
}

static enum ss_status read_size(const struct reading *r, struct ss_data_file *out)
{
    static const char wanted[] = "[height, width], at least the images' own";
    double least[2];
    SS_TRY(read_count(r, "height", MOST_SIDE, &out->size.height));
    SS_TRY(read_count(r, "width", MOST_SIDE, &out->size.width));
    SS_TRY(read_numbers(r, "least", 2, 1, wanted, least));
    if (least[0] < out->size.height || least[1] < out->size.width || least[0] > MOST_SIDE ||
        least[1] > MOST_SIDE)
        return wrong(r, "least", wanted);
    out->least = (struct ss_size){(int)least[0], (int)least[1]};
    return SS_OK;
}

static enum ss_status read_all(const struct reading *r, struct ss_data_file *out)
{
    double mean[3], std[3];
    const char *is = json_string_value(json_object_get(r->file, "format")),
               *name = json_string_value(json_object_get(r->file, "name"));
    if (!is || strcmp(is, format))
        return ss_fail(SS_ERR_FORMAT, "%s: \"format\" is not \"%s\"", r->path, format);
    int version;
    SS_TRY(read_count(r, "version", VERSION, &version));
    snprintf(out->name, sizeof out->name, "%s", name ? name : "");
    SS_TRY(read_count(r, "channels", 3, &out->channels));
    SS_TRY(read_size(r, out));
    SS_TRY(read_numbers(r, "mean", out->channels, -1e6, "a number for each channel", mean));
    SS_TRY(read_numbers(r, "std", out->channels, 1e-9, "a number above 0 for each channel", std));
    for (int c = 0; c < out->channels; c++) {
        out->mean[c] = (float)mean[c];
        out->std[c] = (float)std[c];
    }
    return read_names(r, out);
}

enum ss_status ss_data_file_read(const char *path, struct ss_data_file *out)
{
    json_t *file;
    *out = (struct ss_data_file){0};
    SS_TRY(ss_json_load("--init", path, "description of images", MOST_BYTES, &file));
    const struct reading r = {path, file};
    enum ss_status status = read_all(&r, out);
    json_decref(file);
    if (status != SS_OK)
        ss_data_file_clear(out);
    return status;
}

void ss_data_file_clear(struct ss_data_file *f)
{
    for (int i = 0; f->names && i < f->classes; i++)
        free(f->names[i]);
    free(f->names);
    *f = (struct ss_data_file){0};
}
