#include "apps/data/synthetic.h"
#include "core/atomic_file.h"
#include "core/folder.h"
#include "core/log.h"
#include "core/rng.h"
#include "data/cifar.h"

#include <stdio.h>
#include <stdlib.h>

_Static_assert((int)SS_SYNTHETIC_SIDE == (int)SS_CIFAR_SIDE, "samples are records of CIFAR");

enum {
    SIDE = SS_SYNTHETIC_SIDE,
    GRID = 4, /* knots of a pattern per side; a wavelength is at least two knots */
    CELL = SIDE / GRID,
    MAX_SHIFT = 5,      /* pixels, either way */
    OWN_PERCENT = 45,   /* weight of the sample's own pattern against the class's 100 */
    NOISE_QUARTER = 30, /* noise is the sum of four uniform draws of +-this: sigma about 35 */
};

/* Random streams: argument `a` of ss_rng_open. */
enum { STREAM_CLASS, STREAM_TRAIN, STREAM_TEST, STREAM_TRAIN_LABELS, STREAM_TEST_LABELS };

/* A smooth periodic pattern in -127 .. 127: interpolated random knots. */
struct pattern {
    int8_t value[3][SIDE][SIDE];
};

static int draw_between(struct ss_rng *rng, int low, int high)
{
    return low + (int)ss_rng_below(rng, (uint32_t)(high - low + 1));
}

static void draw_pattern(struct ss_rng *rng, struct pattern *p)
{
    /* Smoothstep 3t^2 - 2t^3 at t = i / CELL, scaled to 256. */
    int weight[CELL];
    for (int i = 0; i < CELL; i++)
        weight[i] = 256 * i * i * (3 * CELL - 2 * i) / (CELL * CELL * CELL);
    for (int c = 0; c < 3; c++) {
        int knot[GRID][GRID];
        for (int y = 0; y < GRID; y++)
            for (int x = 0; x < GRID; x++)
                knot[y][x] = draw_between(rng, -127, 127);
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                int y0 = y / CELL, x0 = x / CELL, y1 = (y0 + 1) % GRID, x1 = (x0 + 1) % GRID;
                int wy = weight[y % CELL], wx = weight[x % CELL];
                int top = knot[y0][x0] * (256 - wx) + knot[y0][x1] * wx;
                int bottom = knot[y1][x0] * (256 - wx) + knot[y1][x1] * wx;
                p->value[c][y][x] = (int8_t)((top * (256 - wy) + bottom * wy) / 65536);
            }
    }
}

static void draw_image(struct ss_rng *rng, const struct pattern *class_pattern, uint8_t *image)
{
    struct pattern own;
    draw_pattern(rng, &own);
    int dy = draw_between(rng, -MAX_SHIFT, MAX_SHIFT) + SIDE;
    int dx = draw_between(rng, -MAX_SHIFT, MAX_SHIFT) + SIDE;
    int contrast = draw_between(rng, 40, 100); /* percent */
    int brightness = draw_between(rng, 98, 158);
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                int v = class_pattern->value[c][(y + dy) % SIDE][(x + dx) % SIDE];
                v = (v * 100 + own.value[c][y][x] * OWN_PERCENT) * contrast / 10000;
                uint32_t bits = ss_rng_u32(rng);
                for (int i = 0; i < 4; i++, bits >>= 8)
                    v += ((int)(bits & 0xFF) * (2 * NOISE_QUARTER + 1) >> 8) - NOISE_QUARTER;
                v += brightness;
                *image++ = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
            }
}

static void draw_class(uint64_t seed, uint32_t class_index, struct pattern *p)
{
    struct ss_rng rng;
    ss_rng_open(&rng, seed, SS_RNG_SYNTHETIC, STREAM_CLASS, class_index);
    draw_pattern(&rng, p);
}

static void draw_sample(uint64_t seed, int test, uint32_t sample,
                        const struct pattern *class_pattern, uint8_t *image)
{
    struct ss_rng rng;
    ss_rng_open(&rng, seed, SS_RNG_SYNTHETIC, test ? STREAM_TEST : STREAM_TRAIN, sample);
    draw_image(&rng, class_pattern, image);
}

void ss_synthetic_image(uint64_t seed, uint32_t class_index, int test, uint32_t sample,
                        uint8_t *image)
{
    struct pattern p;
    draw_class(seed, class_index, &p);
    draw_sample(seed, test, sample, &p, image);
}

/* Write the labels 0, 1, ..., classes-1, 0, 1, ... in shuffled order. */
static void draw_labels(uint64_t seed, uint32_t stream, uint32_t classes, uint8_t *labels,
                        uint32_t count)
{
    struct ss_rng rng;
    ss_rng_open(&rng, seed, SS_RNG_SYNTHETIC, stream, 0);
    for (uint32_t i = 0; i < count; i++)
        labels[i] = (uint8_t)(i % classes);
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t j = ss_rng_below(&rng, i + 1);
        uint8_t t = labels[i];
        labels[i] = labels[j];
        labels[j] = t;
    }
}

struct writer {
    const struct ss_cifar *cifar;
    const char *dir;
    const struct ss_synthetic *what;
    const struct pattern *patterns;
    struct ss_atomic_file *files[2 * SS_CIFAR_MAX_FILES];
    int count;
};

/* Write samples first .. end-1 of a split to a file. */
static enum ss_status write_records(const struct writer *w, int test, const uint8_t *labels,
                                    uint32_t first, uint32_t end, struct ss_atomic_file *f)
{
    enum ss_status status = SS_OK;
    for (uint32_t i = first; i < end && status == SS_OK; i++) {
        uint8_t record[SS_CIFAR_MAX_RECORD];
        size_t n = 0;
        if (w->cifar->coarse)
            record[n++] = labels[i] / 5;
        record[n++] = labels[i];
        draw_sample(w->what->seed, test, i, &w->patterns[labels[i]], record + n);
        status = ss_atomic_write(f, record, n + SS_CIFAR_IMAGE);
    }
    return status;
}

/* Write a split's files, with sizes that differ by at most one sample. The caller commits or aborts
 * them. */
static enum ss_status write_files(struct writer *w, int test, const uint8_t *labels, uint32_t count)
{
    const char *const *files = w->cifar->files[test];
    uint32_t n = 0;
    while (files[n])
        n++;
    for (uint32_t i = 0; i < n; i++) {
        char path[4096], name[32];
        const uint32_t first = (uint32_t)((uint64_t)count * i / n),
                       end = (uint32_t)((uint64_t)count * (i + 1) / n);
        snprintf(name, sizeof name, "%s.bin", files[i]);
        SS_TRY(ss_folder_join(path, sizeof path, w->dir, name));
        SS_TRY(ss_atomic_open(path, &w->files[w->count]));
        SS_TRY(write_records(w, test, labels, first, end, w->files[w->count++]));
    }
    return SS_OK;
}

static enum ss_status write_split(struct writer *w, int test)
{
    const struct ss_synthetic *what = w->what;
    const uint32_t count = test ? what->test : what->train;
    uint8_t *labels = malloc(count);
    if (!labels)
        return ss_fail_memory("labels", count);
    draw_labels(what->seed, test ? STREAM_TEST_LABELS : STREAM_TRAIN_LABELS, what->classes, labels,
                count);
    enum ss_status status = write_files(w, test, labels, count);
    free(labels);
    return status;
}

static enum ss_status write_splits(struct writer *w)
{
    int done = 0;
    enum ss_status status = ss_folder_make(w->dir);
    for (int test = 0; test < 2 && status == SS_OK; test++)
        status = write_split(w, test);
    while (status == SS_OK && done < w->count)
        status = ss_atomic_commit(w->files[done++]);
    while (done < w->count)
        ss_atomic_abort(w->files[done++]);
    return status;
}

enum ss_status ss_synthetic_cifar(const struct ss_cifar *cifar, const char *dir,
                                  const struct ss_synthetic *what)
{
    const uint32_t least = cifar->files[0][1] ? SS_CIFAR_MAX_FILES : 1;
    if (what->classes < 1 || what->classes > (uint32_t)cifar->classes)
        return ss_fail(SS_ERR_INVALID, "%u classes; give 1 to %d", what->classes, cifar->classes);
    if (what->train < least || what->train > SS_SYNTHETIC_MAX || what->test < 1 ||
        what->test > SS_SYNTHETIC_MAX)
        return ss_fail(SS_ERR_INVALID, "%u training and %u test samples; give %u to %d and 1 to %d",
                       what->train, what->test, least, SS_SYNTHETIC_MAX, SS_SYNTHETIC_MAX);
    struct pattern *patterns = malloc(what->classes * sizeof *patterns);
    if (!patterns)
        return ss_fail_memory("class patterns", what->classes * sizeof *patterns);
    for (uint32_t k = 0; k < what->classes; k++)
        draw_class(what->seed, k, &patterns[k]);
    struct writer w = {.cifar = cifar, .dir = dir, .what = what, .patterns = patterns};
    enum ss_status status = write_splits(&w);
    free(patterns);
    return status;
}
