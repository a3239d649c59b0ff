/* old_checkpoint IN OUT: a training.safetensors as versions before --optimizer wrote it: the fields
 * below in this order and no others, tensors momentum.NAME, which now are momentum_buffer.NAME, and
 * a crc32c of both. */
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
enum { FIELDS = sizeof fields / sizeof *fields, TENSORS = 512, NAME_ROOM = 256 };

static enum ss_status convert(const struct ss_safetensors *in, const char *out)
{
    const char *pairs[2 * FIELDS + 5], *model = ss_safetensors_metadata(in, "model_crc32c");
    struct ss_st_tensor tensor[TENSORS];
    static char name[TENSORS][NAME_ROOM];
    const size_t prefix = strlen("momentum_buffer");
    size_t n = 0, count = ss_safetensors_count(in);
    uint32_t crc = ss_crc32c(0, model, strlen(model));
    for (size_t i = 0; i < FIELDS; i++) {
        const char *value = ss_safetensors_metadata(in, fields[i]);
        if (!value)
            return ss_fail(SS_ERR_FORMAT, "field %s is missing", fields[i]);
        crc = ss_crc32c(crc, value, strlen(value) + 1);
        pairs[n++] = fields[i];
        pairs[n++] = value;
    }
    for (size_t k = 0; k < count && k < TENSORS; k++) {
        tensor[k] = *ss_safetensors_get(in, k);
        if (strncmp(tensor[k].name, "momentum_buffer.", prefix + 1))
            return ss_fail(SS_ERR_FORMAT, "tensor %s is none of old", tensor[k].name);
        snprintf(name[k], sizeof name[k], "momentum%s", tensor[k].name + prefix);
        tensor[k].name = name[k];
        crc = ss_crc32c(crc, tensor[k].data, tensor[k].bytes);
    }
    char text[9];
    snprintf(text, sizeof text, "%08x", crc);
    const char *const end[] = {"model_crc32c", model, "crc32c", text, NULL};
    memcpy(pairs + n, end, sizeof end);
    return ss_safetensors_write(out, tensor, count, pairs);
}

int main(int argc, char **argv)
{
    struct ss_safetensors *in;
    if (argc != 3 || ss_safetensors_open(argv[1], &in) != SS_OK)
        return 2;
    enum ss_status status = convert(in, argv[2]);
    ss_safetensors_close(in);
    return status != SS_OK;
}
