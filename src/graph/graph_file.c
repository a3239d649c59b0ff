#include "graph/graph_file.h"
#include "core/json_file.h"
#include "core/json_value.h"
#include "core/log.h"
#include "core/number.h"
#include "layers/list.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1 };
static const char format_name[] = "starstep-model", input_id[] = "input";

struct reader {
    const char *path;
    struct ss_graph *graph;
    json_t *values; /* id -> index of its output */
    int no_drop;
    const char *id; /* of the current layer; NULL: none */
};

/* "FILE: layer ID: ..." */
static enum ss_status refuse(const struct reader *r, const char *format, ...) SS_PRINTF(2, 3);
static enum ss_status refuse(const struct reader *r, const char *format, ...)
{
    char text[384];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return r->id ? ss_fail(SS_ERR_FORMAT, "%s: layer %.60s: %s", r->path, r->id, text)
                 : ss_fail(SS_ERR_FORMAT, "%s: %s", r->path, text);
}

/* Report an invalid value of a field, with its text, truncated if necessary. */
static enum ss_status unfit(const struct reader *r, const char *field, const json_t *value,
                            const char *wanted)
{
    char *was =
        value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    enum ss_status status =
        value ? refuse(r, "field %s: %.60s is not %s", field, was ? was : "?", wanted)
              : refuse(r, "field %s is missing; it must be %s", field, wanted);
    free(was);
    return status;
}

/* Check that every key of an object is a known one or a field. */
static enum ss_status check_keys(const struct reader *r, const json_t *object,
                                 const char *const *known, const struct ss_layer_field *fields)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        int found = 0;
        for (const char *const *k = known; *k; k++)
            found |= !strcmp(*k, key);
        for (const struct ss_layer_field *f = fields; f && f->name; f++)
            found |= !strcmp(f->name, key);
        if (!found)
            return refuse(r, "unknown field %.60s; see docs/models.md", key);
    }
    return SS_OK;
}

static enum ss_status get_text(const struct reader *r, const json_t *object, const char *field,
                               const char **out)
{
    const json_t *value = json_object_get(object, field);
    *out = json_string_value(value);
    return *out && **out ? SS_OK : unfit(r, field, value, "a text in quotes");
}

static int fits(const json_t *value, double least, double most)
{
    return json_is_integer(value) && (double)json_integer_value(value) >= least &&
           (double)json_integer_value(value) <= most;
}

static enum ss_status get_int(const struct reader *r, const json_t *object, const char *field,
                              int most, int *out)
{
    const json_t *value = json_object_get(object, field);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "a whole number from 1 to %d", most);
    *out = fits(value, 1, most) ? (int)json_integer_value(value) : 0;
    return *out ? SS_OK : unfit(r, field, value, wanted);
}

static int set_word(const struct ss_layer_field *f, const json_t *value, int *out)
{
    for (int k = 0; json_is_string(value) && f->words[k]; k++)
        if (!strcmp(f->words[k], json_string_value(value))) {
            *out = k;
            return 1;
        }
    return 0;
}

static int set_pair(const struct ss_layer_field *f, const json_t *value, int *out)
{
    const int pair = json_is_array(value) && json_array_size(value) == 2;
    for (int k = 0; k < 2; k++) {
        const json_t *v = pair ? json_array_get(value, (size_t)k) : value;
        if (!fits(v, f->least, f->most))
            return 0;
        out[k] = (int)json_integer_value(v);
    }
    return 1;
}

/* Store a value in its field. Returns 0 if it is invalid. */
static int set_field(const struct ss_layer_field *f, const json_t *value, struct ss_layer *l)
{
    int *whole = (int *)(void *)((char *)l + f->at);
    double real;
    switch (f->type) {
    case SS_FIELD_INT:
        *whole = (int)json_integer_value(value);
        return fits(value, f->least, f->most);
    case SS_FIELD_PAIR:
        return set_pair(f, value, whole);
    case SS_FIELD_FLAG:
        *whole = json_is_true(value);
        return json_is_boolean(value);
    case SS_FIELD_REAL:
        real = json_number_value(value);
        *(float *)whole = (float)real;
        return json_is_number(value) && real >= f->least && real <= f->most;
    case SS_FIELD_WORD:
        return set_word(f, value, whole);
    }
    return 0;
}

static void describe_field(const struct ss_layer_field *f, char *text, size_t capacity)
{
    static const char *const what[] = {[SS_FIELD_INT] = "a whole number",
                                       [SS_FIELD_PAIR] = "a whole number, or two in brackets,",
                                       [SS_FIELD_REAL] = "a number"};
    size_t used = 0;
    if (f->type == SS_FIELD_FLAG)
        snprintf(text, capacity, "true or false");
    else if (f->type != SS_FIELD_WORD)
        snprintf(text, capacity, "%s from %.9g to %.9g", what[f->type], f->least, f->most);
    else
        for (int k = 0; f->words[k] && used < capacity; k++)
            used += (size_t)snprintf(text + used, capacity - used, "%s\"%s\"", k ? " or " : "",
                                     f->words[k]);
}

static enum ss_status read_fields(const struct reader *r, const json_t *object, struct ss_layer *l)
{
    for (const struct ss_layer_field *f = l->cls->fields; f && f->name; f++) {
        const json_t *value = json_object_get(object, f->name);
        char wanted[128];
        if (value ? set_field(f, value, l) : !isnan(f->standard))
            continue;
        describe_field(f, wanted, sizeof wanted);
        return unfit(r, f->name, value, wanted);
    }
    return SS_OK;
}

enum { MAX_NAMES = 8 };
static const char frozen_wanted[] = "a list of parameters, such as [\"weight\", \"bias\"]";

/* Read the names of renamed parameters. */
static enum ss_status read_names(const struct reader *r, const json_t *object, struct ss_layer *l,
                                 struct ss_param_name names[MAX_NAMES])
{
    const json_t *params = json_object_get(object, "params");
    const char *suffix;
    json_t *name;
    if (!params)
        return SS_OK;
    if (!json_is_object(params) || json_object_size(params) > MAX_NAMES)
        return unfit(r, "params", params, "an object of names");
    json_object_foreach((json_t *)params, suffix, name)
    {
        if (!json_is_string(name) || !*json_string_value(name))
            return unfit(r, "params", params, "an object of names");
        names[l->nnames++] = (struct ss_param_name){suffix, json_string_value(name)};
    }
    l->names = names;
    return SS_OK;
}

/* Read the suffixes of parameters that are not trained. */
static enum ss_status read_frozen(const struct reader *r, const json_t *object, struct ss_layer *l,
                                  const char *suffixes[MAX_NAMES])
{
    const json_t *list = json_object_get(object, "frozen");
    if (!list)
        return SS_OK;
    if (!json_is_array(list) || json_array_size(list) > MAX_NAMES)
        return unfit(r, "frozen", list, frozen_wanted);
    for (size_t i = 0; i < json_array_size(list); i++) {
        suffixes[i] = json_string_value(json_array_get(list, i));
        if (!suffixes[i])
            return unfit(r, "frozen", list, frozen_wanted);
        l->nfrozen++;
    }
    l->frozen = suffixes;
    return SS_OK;
}

static enum ss_status value_of(const struct reader *r, const char *id, ss_value *out)
{
    const json_t *value = json_object_get(r->values, id);
    if (!value)
        return refuse(r, "reads \"%.60s\", which is neither the input nor a preceding layer", id);
    *out = (ss_value)json_integer_value(value);
    return SS_OK;
}

static enum ss_status read_inputs(const struct reader *r, const json_t *object,
                                  ss_value inputs[SS_MAX_LISTED], int *n)
{
    const json_t *list = json_object_get(object, "inputs");
    *n = (int)json_array_size(list);
    if (!*n || json_array_size(list) > SS_MAX_LISTED)
        return unfit(r, "inputs", list, "a list of 1 to 512 ids");
    for (int i = 0; i < *n; i++) {
        const char *id = json_string_value(json_array_get(list, (size_t)i));
        if (!id)
            return unfit(r, "inputs", list, "a list of ids");
        SS_TRY(value_of(r, id, &inputs[i]));
    }
    return SS_OK;
}

static enum ss_status store_value(const struct reader *r, const char *id, ss_value v)
{
    if (json_object_get(r->values, id))
        return refuse(r, "another layer has this id; give each its own");
    return json_object_set_new(r->values, id, json_integer(v))
               ? ss_fail_memory("values of a model", sizeof v)
               : SS_OK;
}

static const struct ss_layer_class *find_class(const char *name)
{
    const struct ss_layer_class *const *c = ss_layer_classes;
    while (*c && strcmp((*c)->name, name))
        c++;
    return *c;
}

static enum ss_status read_layer(struct reader *r, const json_t *object)
{
    static const char *const known[] = {"id", "kind", "name", "inputs", "params", "frozen", NULL};
    struct ss_param_name names[MAX_NAMES];
    const char *frozen[MAX_NAMES];
    ss_value inputs[SS_MAX_LISTED], y;
    const char *kind, *name = json_string_value(json_object_get(object, "name"));
    int n;
    r->id = NULL;
    if (!json_is_object(object))
        return unfit(r, "layers", object, "a layer, an object");
    SS_TRY(get_text(r, object, "id", &r->id));
    SS_TRY(get_text(r, object, "kind", &kind));
    const struct ss_layer_class *cls = find_class(kind);
    if (!cls)
        return refuse(r, "no kind of layer is called \"%.40s\"; `starstep info` lists them", kind);
    if (json_object_get(object, "name") && !name)
        SS_TRY(get_text(r, object, "name", &name));
    struct ss_layer told = ss_layer_of(cls);
    SS_TRY(check_keys(r, object, known, cls->fields));
    SS_TRY(read_inputs(r, object, inputs, &n));
    SS_TRY(read_fields(r, object, &told));
    SS_TRY(read_names(r, object, &told, names));
    SS_TRY(read_frozen(r, object, &told, frozen));
    ss_graph_at(r->graph, r->id);
    y = cls->drops && r->no_drop ? inputs[0]
                                 : ss_graph_add(r->graph, &told, name ? name : "", n, inputs);
    return y < 0 ? ss_graph_status(r->graph) : store_value(r, r->id, y);
}

static enum ss_status read_input(struct reader *r, const json_t *file)
{
    static const char *const known[] = {"channels", "height", "width", NULL};
    const json_t *input = json_object_get(file, input_id);
    int c, h, w;
    if (!json_is_object(input))
        return unfit(r, input_id, input, "an object of channels, height and width");
    SS_TRY(check_keys(r, input, known, NULL));
    SS_TRY(get_int(r, input, "channels", SS_MAX_CHANNELS, &c));
    SS_TRY(get_int(r, input, "height", SS_MAX_SIDE, &h));
    SS_TRY(get_int(r, input, "width", SS_MAX_SIDE, &w));
    const ss_value x = ss_input(r->graph, c, h, w);
    return x < 0 ? ss_graph_status(r->graph) : store_value(r, input_id, x);
}

/* Returns the model name for a file without one. */
static const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static enum ss_status read_graph(struct reader *r, const json_t *file)
{
    static const char *const known[] = {"format", "version", "name", "input",
                                        "layers", "output",  NULL};
    const char *format, *output, *name = path_name(r->path);
    ss_value logits = -1;
    int version;
    const json_t *layers = json_object_get(file, "layers");
    SS_TRY(get_text(r, file, "format", &format));
    if (strcmp(format, format_name))
        return unfit(r, "format", json_object_get(file, "format"), "\"starstep-model\"");
    SS_TRY(get_int(r, file, "version", VERSION, &version));
    SS_TRY(check_keys(r, file, known, NULL));
    SS_TRY(read_input(r, file));
    if (!json_array_size(layers))
        return unfit(r, "layers", layers, "a list of layers");
    for (size_t i = 0; i < json_array_size(layers); i++)
        SS_TRY(read_layer(r, json_array_get(layers, i)));
    r->id = NULL;
    SS_TRY(get_text(r, file, "output", &output));
    r->id = "output";
    SS_TRY(value_of(r, output, &logits));
    ss_graph_at(r->graph, NULL);
    ss_softmax_cross_entropy(r->graph, logits);
    SS_TRY(ss_graph_finish(r->graph));
    if (json_object_get(file, "name"))
        SS_TRY(get_text(r, file, "name", &name));
    ss_graph_rename(r->graph, name);
    return SS_OK;
}

enum ss_status ss_graph_read(const char *path, int no_drop, struct ss_graph **out)
{
    json_t *file;
    SS_TRY(ss_json_load("--model", path, "model", SS_GRAPH_FILE_BYTES, &file));
    struct reader r = {
        .path = path, .graph = ss_graph_create(path), .values = json_object(), .no_drop = no_drop};
    enum ss_status status = !r.graph    ? SS_ERR_MEMORY /* already reported */
                            : !r.values ? ss_fail_memory("a model", sizeof r)
                            : json_is_object(file)
                                ? read_graph(&r, file)
                                : refuse(&r, "a model is an object; see docs/models.md");
    json_decref(r.values);
    json_decref(file);
    if (status == SS_OK)
        *out = r.graph;
    else
        ss_graph_destroy(r.graph);
    return status;
}

static json_t *number_of(float real)
{
    const double value = ss_number_of_float(real);
    return value == rint(value) && fabs(value) < 1e9 ? json_integer((json_int_t)value)
                                                     : json_real(value);
}

static json_t *setting_of(const struct ss_layer_field *f, const int *whole)
{
    switch (f->type) {
    case SS_FIELD_INT:
        return json_integer(whole[0]);
    case SS_FIELD_PAIR:
        return json_pack("[i,i]", whole[0], whole[1]);
    case SS_FIELD_FLAG:
        return json_boolean(whole[0]);
    case SS_FIELD_REAL:
        return number_of(*(const float *)whole);
    case SS_FIELD_WORD:
        return json_string(f->words[whole[0]]);
    }
    return NULL;
}

/* Add the settings that differ from the defaults of the layer's kind. */
static void add_settings(json_t **entry, const struct ss_layer *l)
{
    const struct ss_layer standard = ss_layer_of(l->cls);
    for (const struct ss_layer_field *f = l->cls->fields; f && f->name; f++) {
        const int *whole = (const int *)(const void *)((const char *)l + f->at),
                  *other = (const int *)(const void *)((const char *)&standard + f->at);
        const int pair = f->type == SS_FIELD_PAIR;
        if (isnan(f->standard) || whole[0] != other[0] || (pair && whole[1] != other[1]))
            ss_json_set(entry, f->name, setting_of(f, whole));
    }
}

/* Returns the names of parameters that are not the layer's name followed by their suffix. */
static json_t *names_of(const struct ss_graph *g, const struct ss_layer *l)
{
    json_t *params = json_object();
    for (int i = l->first_param; i < l->first_param + l->nparams; i++) {
        const struct ss_param *p = ss_graph_param(g, i);
        const size_t head = strlen(l->name);
        if (head && !strncmp(p->name, l->name, head) && p->name[head] == '.' &&
            !strcmp(p->name + head + 1, p->suffix))
            continue;
        ss_json_set(&params, p->suffix, json_string(p->name));
    }
    return params;
}

static json_t *frozen_of(const struct ss_graph *g, const struct ss_layer *l)
{
    json_t *list = json_array();
    for (int i = l->first_param; i < l->first_param + l->nparams; i++)
        if (ss_graph_param(g, i)->frozen)
            ss_json_append(&list, json_string(ss_graph_param(g, i)->suffix));
    return list;
}

/* Add a value unless it is empty. */
static void add_filled(json_t **entry, const char *key, json_t *value)
{
    if (value && !json_object_size(value) && !json_array_size(value))
        json_decref(value);
    else
        ss_json_set(entry, key, value);
}

static int is_name(const struct ss_graph *g, const char *text)
{
    for (int i = 1; i < ss_graph_layers(g); i++)
        if (!strcmp(ss_graph_layer(g, i)->name, text))
            return 1;
    return 0;
}

/* Returns a layer's name or, for unnamed layers, another unique id. */
static json_t *id_of(const struct ss_graph *g, int layer)
{
    const struct ss_layer *l = ss_graph_layer(g, layer);
    char id[2 * SS_NAME_BYTES];
    if (layer == 0)
        return json_string(input_id);
    if (*l->name && strcmp(l->name, input_id))
        return json_string(l->name);
    int length = snprintf(id, SS_NAME_BYTES, "%s:%d", l->cls->name, layer);
    for (; is_name(g, id); length++) /* names are shorter than id's capacity */
        strcpy(id + length, "_");
    return json_string(id);
}

static json_t *entry_of(const struct ss_graph *g, int layer)
{
    const struct ss_layer *l = ss_graph_layer(g, layer);
    json_t *inputs = json_array(),
           *entry = json_pack("{s:o,s:s}", "id", id_of(g, layer), "kind", l->cls->name);
    if (*l->name)
        ss_json_set(&entry, "name", json_string(l->name));
    for (int i = 0; i < l->ninputs; i++)
        ss_json_append(&inputs, id_of(g, ss_graph_value(g, l->input[i])->producer));
    ss_json_set(&entry, "inputs", inputs);
    add_settings(&entry, l);
    add_filled(&entry, "params", names_of(g, l));
    add_filled(&entry, "frozen", frozen_of(g, l));
    return entry;
}

/* Write `before`, then a value, and release the value. A float has at most 9 digits. */
static void put(FILE *out, const char *before, json_t *value, int *bad)
{
    *bad |= !value;
    fputs(before, out);
    if (value)
        (void)json_dumpf(value, out, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    json_decref(value);
}

enum ss_status ss_graph_text(const struct ss_graph *g, char **text)
{
    const struct ss_value_info *x = ss_graph_value(g, ss_graph_layer(g, 0)->output);
    const int last = ss_graph_layers(g) - 1; /* the loss */
    size_t bytes = 0;
    int bad = 0;
    *text = NULL;
    FILE *out = open_memstream(text, &bytes);
    if (!out)
        return ss_fail_memory("the model's layers", sizeof *out);
    put(out, "{\"format\":", json_string(format_name), &bad);
    put(out, ",\"version\":", json_integer(VERSION), &bad);
    put(out, ",\"name\":", json_string(ss_graph_name(g)), &bad);
    put(out, ",\n \"input\":",
        json_pack("{s:i,s:i,s:i}", "channels", x->c, "height", x->h, "width", x->w), &bad);
    fputs(",\n \"layers\":[", out);
    for (int i = 1; i < last && !bad; i++)
        put(out, i > 1 ? ",\n  " : "\n  ", entry_of(g, i), &bad);
    put(out, "],\n \"output\":",
        id_of(g, ss_graph_value(g, ss_graph_layer(g, last)->input[0])->producer), &bad);
    fputs("}\n", out);
    bad |= ferror(out);
    bad |= fclose(out);
    if (!bad)
        return SS_OK;
    free(*text);
    *text = NULL;
    return ss_fail_memory("the model's layers", bytes);
}
