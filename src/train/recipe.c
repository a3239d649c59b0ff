#include "train/recipe.h"
#include "core/json_file.h"
#include "core/log.h"
#include "core/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ss_recipe {
    json_t *json;
};

enum { NAME = 64 };

/* Pairs of options with the same meaning in different units. */
static const char *const twins[][2] = {{"--batch-size", "--per-rank-batch-size"},
                                       {"--warmup-steps", "--warmup-epochs"}};

/* 1 if the other option of the pair is given on the command line. */
static int is_replaced(const struct ss_train_options *given, const char *name)
{
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        for (int k = 0; k < 2; k++)
            if (!strcmp(name, twins[i][k]))
                return !ss_train_is_default(given, twins[i][!k]);
    return 0;
}

/* The value as JSON on one line. */
static char *shown(const json_t *value)
{
    return json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
}

static enum ss_status unknown(const char *file, const struct ss_option_set *all, const char *key,
                              const char *name)
{
    const char *nearest = ss_option_nearest(all, name);
    json_t *text = json_string(key);
    char *field = shown(text);
    enum ss_status status =
        nearest
            ? ss_fail(SS_ERR_INVALID, "%s: field %.60s is not an option of train; did you mean %s?",
                      file, field ? field : "?", nearest + 2)
            : ss_fail(SS_ERR_INVALID, "%s: field %.60s is not an option; see starstep train --help",
                      file, field ? field : "?");
    free(field);
    json_decref(text);
    return status;
}

/* The value as command-line text, possibly stored in `number`; NULL if it has the wrong type. */
static const char *as_text(const struct ss_option *row, const json_t *value,
                           char number[SS_NUMBER_CAPACITY])
{
    snprintf(number, SS_NUMBER_CAPACITY, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    switch (row->type) {
    case SS_OPT_FLAG:
        return json_is_true(value) ? "true" : json_is_false(value) ? "false" : NULL;
    case SS_OPT_INT:
        return json_is_integer(value) ? number : NULL;
    case SS_OPT_FLOAT:
        return json_is_integer(value) ? number
               : json_is_real(value)  ? ss_number_text(json_real_value(value), number)
                                      : NULL;
    case SS_OPT_SIZE:
        if (json_is_integer(value))
            return number;
        break;
    case SS_OPT_TEXT:
    case SS_OPT_WORD:
        break;
    }
    return json_string_value(value);
}

static const char *const wanted[] = {
    [SS_OPT_FLAG] = "true or false",    [SS_OPT_INT] = "a whole number",
    [SS_OPT_FLOAT] = "a number",        [SS_OPT_TEXT] = "a text in quotes",
    [SS_OPT_WORD] = "a word in quotes", [SS_OPT_SIZE] = "a whole number, or \"HxW\""};

static enum ss_status set(const char *file, const struct ss_option *row, const json_t *value,
                          struct ss_train_options *o)
{
    char number[SS_NUMBER_CAPACITY];
    const char *text = as_text(row, value, number);
    if (text)
        return ss_option_set(row, o, file, text);
    char *was = shown(value);
    ss_fail(SS_ERR_INVALID, "%s: %s: %.60s is not %s", file, row->name, was ? was : "?",
            wanted[row->type]);
    free(was);
    return SS_ERR_INVALID;
}

/* Apply a recipe to *out, which has the defaults. given: options of the command line. */
static enum ss_status apply(const char *file, const json_t *recipe, unsigned groups,
                            const struct ss_train_options *given, struct ss_train_options *out)
{
    const char *key;
    json_t *value;
    struct ss_train_options aside = *out;
    const struct ss_option_set all[] = {ss_train_option_set(&aside, 0), {0}};
    json_object_foreach((json_t *)recipe, key, value)
    {
        char name[NAME];
        const int whole = snprintf(name, sizeof name, "--%s", key) < NAME;
        const struct ss_option *row = ss_option_find(all, name);
        if (!row || !whole)
            return unknown(file, all, key, name);
        if (row->group & SS_TRAIN_RECIPE)
            return ss_fail(SS_ERR_INVALID, "%s: a recipe cannot name another recipe; remove %s",
                           file, key);
        if (row->marks & SS_TRAIN_CALL)
            return ss_fail(SS_ERR_INVALID,
                           "%s: %s cannot be set in a recipe; give it on the command line", file,
                           row->name);
        const int taken = row->group & groups && !is_replaced(given, row->name);
        SS_TRY(set(file, row, value, taken ? out : &aside));
    }
    return SS_OK;
}

static enum ss_status load(const char *file, json_t **out)
{
    json_t *value;
    SS_TRY(ss_json_load("--recipe", file, "recipe", SS_RECIPE_BYTES, &value));
    if (!json_is_object(value)) {
        json_decref(value);
        return ss_fail(SS_ERR_FORMAT,
                       "%s: a recipe is an object of options, such as {\"epochs\": 90}", file);
    }
    *out = value;
    return SS_OK;
}

/* Replaces the options given by the recipe's, then parses the command line again. */
static enum ss_status read_all(const struct ss_option_set *sets, int argc, char **argv,
                               struct ss_recipe *recipe)
{
    struct ss_train_options *o = sets->values;
    const struct ss_train_options given = *o;
    SS_TRY(load(given.recipe, &recipe->json));
    *o = ss_train_defaults();
    SS_TRY(apply(given.recipe, recipe->json, sets->groups, &given, o));
    return ss_options_parse(sets, argc, argv);
}

enum ss_status ss_recipe_parse(const struct ss_option_set *sets, int argc, char **argv,
                               struct ss_recipe **out)
{
    *out = NULL;
    for (const struct ss_option_set *set = sets; set->rows; set++)
        ss_options_default(set->rows, set->values);
    SS_TRY(ss_options_parse(sets, argc, argv));
    if (!((const struct ss_train_options *)sets->values)->recipe)
        return SS_OK;
    struct ss_recipe *recipe = calloc(1, sizeof *recipe);
    if (!recipe)
        return ss_fail_memory("recipe", sizeof *recipe);
    enum ss_status status = read_all(sets, argc, argv, recipe);
    if (status != SS_OK) {
        ss_recipe_close(recipe);
        return status;
    }
    *out = recipe;
    return SS_OK;
}

void ss_recipe_close(struct ss_recipe *recipe)
{
    if (!recipe)
        return;
    json_decref(recipe->json);
    free(recipe);
}
