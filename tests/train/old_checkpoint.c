/* old_checkpoint.c: writes modified training.safetensors files for test_resume.sh.
 *
 * old_checkpoint IN OUT: convert IN to the format before --optimizer: only the fields below, in
 * this order, tensors named momentum.NAME instead of momentum_buffer.NAME, and a crc32c of both.
 * old_checkpoint IN OUT FIELD VALUE: copy IN with another value of FIELD and a valid crc32c. */
#include "core/crc32c.h"
#include "core/log.h"
#include "train/safetensors.h"

#include <stdio.h>
#include <string.h>

static const char *const fields[] = {"starstep_training",
                                     "step",
                                     "epoch",
                                     "batches_of_epoch",
                                     "num_batches_tracked",
                                     "epochs_at_target",
                                     "steps_summed",
                                     "loss_sum",
                                     "train_loss",
                                     "train_correct",
                                     "train_count",
                                     "train_bad",
                                     "validation_loss",
                                     "validation_correct",
                                     "validation_count",
                                     "validation_bad",
                                     "epoch_seconds",
                                     "total_seconds",
                                     "total_images",
                                     "elapsed_seconds",
                                     "loss_scale",
                                     "loss_scale_steps",
                                     "loss_scale_skipped",
                                     "ranks",
                                     "global_batch",
                                     "training_images",
                                     "data",
                                     "--model",
                                     "--image-size",
                                     "--dropout",
                                     "--seed",
                                     "--no-shuffle",
                                     "--no-augment",
                                     "--momentum",
                                     "--weight-decay",
                                     "--reduced-decode",
                                     "--base-lr",
                                     "--lr-step",
                                     "--lr-gamma",
                                     "--precision",
                                     "--tf32",
                                     "--grad-dtype",
                                     "--conv-algo",
                                     "--target-accuracy"};
enum { FIELDS = sizeof fields / sizeof *fields, MOST = 256, TENSORS = 512, NAME_CAPACITY = 256 };

/* Write the file; `pairs` holds n strings (keys and values) and has space for 5 more. */
static enum ss_status finish(const char *out, const struct ss_st_tensor *tensors, size_t count,
                             const char **pairs, size_t n, const char *model)
{
    uint32_t crc = ss_crc32c(0, model, strlen(model));
    char text[9];
    for (size_t i = 1; i < n; i += 2)
        crc = ss_crc32c(crc, pairs[i], strlen(pairs[i]) + 1);
    for (size_t k = 0; k < count; k++)
        crc = ss_crc32c(crc, tensors[k].data, tensors[k].bytes);
    snprintf(text, sizeof text, "%08x", crc);
    const char *const end[] = {"model_crc32c", model, "crc32c", text, NULL};
    memcpy(pairs + n, end, sizeof end);
    return ss_safetensors_write(out, tensors, count, pairs);
}

static enum ss_status change(const struct ss_safetensors *in, const char *out, const char *field,
                             const char *now)
{
    const char *pairs[2 * MOST + 5], *key, *value;
    struct ss_st_tensor tensor[TENSORS];
    size_t n = 0, count = ss_safetensors_count(in), changed = 0;
    for (size_t i = 0; n < 2 * MOST && ss_safetensors_metadata_at(in, i, &key, &value); i++) {
        if (strstr(key, "crc32c"))
            continue;
        changed += !strcmp(key, field);
        pairs[n++] = key;
        pairs[n++] = strcmp(key, field) ? value : now;
    }
    for (size_t k = 0; k < count && k < TENSORS; k++)
        tensor[k] = *ss_safetensors_get(in, k);
    if (!changed || count > TENSORS)
        return ss_fail(SS_ERR_FORMAT, "field %s is missing, or there are too many tensors", field);
    return finish(out, tensor, count, pairs, n, ss_safetensors_metadata(in, "model_crc32c"));
}

static enum ss_status convert(const struct ss_safetensors *in, const char *out)
{
    const char *pairs[2 * FIELDS + 5], *model = ss_safetensors_metadata(in, "model_crc32c");
    struct ss_st_tensor tensor[TENSORS];
    static char name[TENSORS][NAME_CAPACITY];
    const size_t prefix = strlen("momentum_buffer");
    size_t n = 0, count = ss_safetensors_count(in);
    for (size_t i = 0; i < FIELDS; i++) {
        const char *value = ss_safetensors_metadata(in, fields[i]);
        if (!value)
            return ss_fail(SS_ERR_FORMAT, "field %s is missing", fields[i]);
        pairs[n++] = fields[i];
        pairs[n++] = value;
    }
    for (size_t k = 0; k < count && k < TENSORS; k++) {
        tensor[k] = *ss_safetensors_get(in, k);
        if (strncmp(tensor[k].name, "momentum_buffer.", prefix + 1))
            return ss_fail(SS_ERR_FORMAT, "tensor %s has no earlier name", tensor[k].name);
        snprintf(name[k], sizeof name[k], "momentum%s", tensor[k].name + prefix);
        tensor[k].name = name[k];
    }
    return finish(out, tensor, count, pairs, n, model);
}

int main(int argc, char **argv)
{
    struct ss_safetensors *in;
    if ((argc != 3 && argc != 5) || ss_safetensors_open(argv[1], &in) != SS_OK)
        return 2;
    enum ss_status status =
        argc == 3 ? convert(in, argv[2]) : change(in, argv[2], argv[3], argv[4]);
    ss_safetensors_close(in);
    return status != SS_OK;
}
