#include "train/epoch.h"
#include "core/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* Sent as raw bytes between ranks of the same program. */
struct figures {
    double loader_images_per_s, wait_s, host_mb, device_mb;
};

static struct figures own_figures(const struct ss_session *s, const struct ss_epoch *e)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double busy = e->feed[1].busy_s - e->feed[0].busy_s;
    double images = e->feed[1].images - e->feed[0].images;
    return (struct figures){.loader_images_per_s =
                                busy > 0 ? images / busy * s->runtime.placement.workers : 0,
                            .wait_s = e->feed[1].wait_s - e->feed[0].wait_s,
                            .host_mb = (double)usage.ru_maxrss / 1024,
                            .device_mb = (double)ss_exec_memory(s->exec).device_used / 1048576};
}

enum ss_status ss_epoch_gather(struct ss_session *s, struct ss_epoch *e)
{
    const struct figures own = own_figures(s, e);
    size_t ranks = (size_t)ss_comm_size(s->comm);
    void *gathered;
    SS_TRY(ss_comm_gather_alloc(s->comm, &own, sizeof own, &gathered, "figures of the epoch"));
    const struct figures *all = gathered;
    for (size_t r = 0; all && r < ranks; r++) {
        e->loader_images_per_s += all[r].loader_images_per_s;
        e->wait_s = fmax(e->wait_s, all[r].wait_s);
        e->host_mb = fmax(e->host_mb, all[r].host_mb);
        e->device_mb = fmax(e->device_mb, all[r].device_mb);
    }
    free(gathered);
    return SS_OK;
}

double ss_epoch_train_rate(const struct ss_epoch *e)
{
    return e->images / e->train_s;
}

double ss_epoch_rate(const struct ss_epoch *e)
{
    return e->images / (e->train_s + e->validation_s);
}

double ss_epoch_loss(const struct ss_metrics *m)
{
    return m->bad > 0 ? NAN : m->loss / m->count;
}

double ss_epoch_accuracy(const struct ss_metrics *m)
{
    return m->correct / m->count;
}

static double top5(const struct ss_metrics *m)
{
    return m->top5 / m->count;
}

/* Format a value; "-" for an epoch that was not evaluated. */
static const char *shown(const struct ss_epoch *e, double v, int digits, char text[32])
{
    snprintf(text, 32, "%.*f", digits, v);
    return e->validation.count > 0 ? text : "-";
}

void ss_epoch_print(const struct ss_epoch *e, enum ss_epoch_form form, FILE *out)
{
    const struct ss_metrics *t = &e->train, *v = &e->validation;
    char loss[32], right[32];
    if (form == SS_EPOCH_CIFAR) {
        fprintf(out,
                "Epoch %ld/%ld: Time=%.3fs, Train loss=%.4f, Validation loss=%s, Accuracy=%s, "
                "Throughput=%.1f img/s, Loader=%.1f img/s, Waited for input=%.3fs",
                e->epoch, e->epochs, e->train_s, e->train_loss, shown(e, ss_epoch_loss(v), 4, loss),
                shown(e, ss_epoch_accuracy(v), 4, right), ss_epoch_train_rate(e),
                e->loader_images_per_s, e->wait_s);
        if (e->ema.count > 0)
            fprintf(out, ", EMA validation loss=%.4f, EMA accuracy=%.4f", ss_epoch_loss(&e->ema),
                    ss_epoch_accuracy(&e->ema));
        fputc('\n', out);
        fflush(out);
        return;
    }
    fprintf(out,
            "Epoch [%ld/%ld] LR: %.6f | Loss (train, val): %.3f, %s | Accuracy (train, val): "
            "%.2f%%, %s%% | Throughput: %.1f img/s | Training only: %.1f img/s | Loader: %.1f "
            "img/s, waited for input %.3f s of %.3f s | Peak memory: ",
            e->epoch, e->epochs, e->lr, e->train_loss, shown(e, ss_epoch_loss(v), 3, loss),
            100 * ss_epoch_accuracy(t), shown(e, 100 * ss_epoch_accuracy(v), 2, right),
            ss_epoch_rate(e), ss_epoch_train_rate(e), e->loader_images_per_s, e->wait_s,
            e->train_s);
    if (e->device_mb > 0)
        fprintf(out, "device %.0f MiB, ", e->device_mb);
    fprintf(out, "host %.0f MiB", e->host_mb);
    if (e->ema.count > 0)
        fprintf(out, " | EMA (val): loss %.3f, accuracy %.2f%%", ss_epoch_loss(&e->ema),
                100 * ss_epoch_accuracy(&e->ema));
    fputc('\n', out);
    fflush(out);
}

void ss_epoch_log(const struct ss_epoch *e, struct ss_journal *journal)
{
    ss_journal_event(
        journal, "epoch", "epoch", 'i', (int64_t)e->epoch, "step", 'i', (int64_t)e->step, "time",
        'f', e->train_s, "validation_time", 'f', e->validation_s, "train_loss", 'f', e->train_loss,
        "train_accuracy", 'f', ss_epoch_accuracy(&e->train), "val_loss", 'f',
        ss_epoch_loss(&e->validation), "val_accuracy", 'f', ss_epoch_accuracy(&e->validation),
        "val_images", 'i', (int64_t)e->validation.count, "images_per_s", 'f',
        ss_epoch_train_rate(e), "images_per_s_with_validation", 'f', ss_epoch_rate(e), "lr", 'f',
        e->lr, "loader_images_per_s", 'f', e->loader_images_per_s, "input_wait_s", 'f', e->wait_s,
        "peak_host_mb", 'f', e->host_mb, "peak_device_mb", 'f', e->device_mb, "train_top5", 'f',
        top5(&e->train), "val_top5", 'f', top5(&e->validation),
        e->ema.count > 0 ? "val_ema_loss" : NULL, 'f', ss_epoch_loss(&e->ema), "val_ema_accuracy",
        'f', ss_epoch_accuracy(&e->ema), NULL);
}

void ss_epoch_write_scalars(const struct ss_epoch *e, struct ss_tensorboard *t)
{
    const struct {
        const char *tag;
        double value;
    } scalars[] = {
        {"Loss/train", e->train_loss},
        {"Loss/val", ss_epoch_loss(&e->validation)},
        {"Accuracy/train", 100 * ss_epoch_accuracy(&e->train)},
        {"Accuracy/val", 100 * ss_epoch_accuracy(&e->validation)},
        {"Throughput/images_per_sec", ss_epoch_rate(e)},
        {"LR", e->lr},
        {"Accuracy/val_top5", 100 * top5(&e->validation)},
        {"Loss/val_ema", ss_epoch_loss(&e->ema)},
        {"Accuracy/val_ema", 100 * ss_epoch_accuracy(&e->ema)},
    };
    const size_t n = sizeof scalars / sizeof *scalars - (e->ema.count > 0 ? 0 : 2);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double wall = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    for (size_t i = 0; i < n; i++)
        if (e->validation.count > 0 || !strstr(scalars[i].tag, "/val"))
            (void)ss_tensorboard_scalar(t, scalars[i].tag, e->epoch, wall, scalars[i].value);
}
