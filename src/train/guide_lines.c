#include "train/guide_lines.h"

#include <stdio.h>
#include <string.h>

int ss_guide_has_lines(enum ss_epoch_form form)
{
    return form == SS_EPOCH_GUIDE_GPU || form == SS_EPOCH_GUIDE_OLDER || form == SS_EPOCH_GUIDE_DDP;
}

void ss_guide_print_start(enum ss_epoch_form form, const struct ss_loop *l)
{
    const struct ss_session *s = &l->session;
    const int ranks = ss_comm_size(s->comm), nodes = ss_comm_nodes(s->comm);
    const char *model = l->options->model;
    char data[32];
    if (form == SS_EPOCH_GUIDE_DDP) {
        printf("Training started with %d processes across %d nodes.\n", ranks, nodes);
        printf("Using %d GPUs per node.\n", ss_comm_local_size(s->comm));
        return;
    }
    snprintf(data, sizeof data, "CIFAR%c%d", form == SS_EPOCH_GUIDE_OLDER ? ' ' : '-',
             s->train->classes);
    printf("Training %s on %s with Batch Size: %lld\n",
           strcmp(model, "wideresnet") == 0 ? "WideResNet" : model,
           ss_dataset_folder(s->train) ? s->train->path : data, (long long)s->step_batch * ranks);
}

void ss_guide_print_stop(enum ss_epoch_form form, long epoch)
{
    printf("%sarly stopping after epoch %ld%s\n",
           form == SS_EPOCH_GUIDE_OLDER ? "E" : "Target accuracy reached. E", epoch,
           form == SS_EPOCH_GUIDE_OLDER ? "" : ".");
}

void ss_guide_print_end(enum ss_epoch_form form, const struct ss_loop *l, double accuracy,
                        double images, double seconds)
{
    const struct ss_comm *comm = l->session.comm;
    const double rate = images / seconds;
    if (form == SS_EPOCH_GUIDE_GPU) {
        printf("\nTraining complete. Final Accuracy: %.4f\n", accuracy);
        printf("Total Time: %.1fs, Throughput: %.1f img/s\n", seconds, rate);
    } else if (form == SS_EPOCH_GUIDE_OLDER) {
        printf("\nTraining complete. Final Validation Accuracy = %5.3f\n", accuracy);
        printf("Total Training Time: %5.3f seconds\n", seconds);
        printf("Throughput: %5.3f images/second\n", rate);
        printf("Single-GPU Thrpughput: %.3f images/second\n", rate); /* spelled as in the guide */
    } else {
        printf("\nTraining Summary:\n");
        printf("Total training time: %.3f seconds\n", seconds);
        printf("Throughput: %.3f images/second\n", rate);
        printf("Number of nodes: %d\n", ss_comm_nodes(comm));
        printf("Number of GPUs per node: %d\n", ss_comm_local_size(comm));
        printf("Total GPUs used: %d\n", ss_comm_size(comm));
        printf("Training completed successfully.\n");
    }
}

void ss_guide_print_epoch(enum ss_epoch_form form, const struct ss_epoch *e, double seconds)
{
    const double loss = ss_epoch_loss(&e->validation), accuracy = ss_epoch_accuracy(&e->validation);
    const double rate = ss_epoch_train_rate(e);
    if (form == SS_EPOCH_GUIDE_GPU) {
        printf("Epoch %ld/%ld: Time=%.3fs, Loss=%.4f, Accuracy=%.4f, Throughput=%.1f img/s\n",
               e->epoch, e->epochs, e->train_s, loss, accuracy, rate);
    } else if (form == SS_EPOCH_GUIDE_OLDER) {
        printf("Epoch = %2ld: Epoch Time = %5.3f, Validation Loss = %5.3f, Validation Accuracy = "
               "%5.3f, Images/sec = %5.3f, Cumulative Time = %5.3f\n",
               e->epoch, e->train_s, loss, accuracy, rate, seconds);
    } else if (form == SS_EPOCH_GUIDE_DDP) {
        printf("Epoch %ld/%ld completed in %.3f seconds\n", e->epoch, e->epochs, e->train_s);
        printf("Validation Loss: %.4f, Validation Accuracy: %.4f\n", loss, accuracy);
        printf("Epoch Throughput: %.3f images/second\n", rate);
    } else {
        printf("Epoch [%ld/%ld] LR: %.6f | Loss (train, val): %.3f, %.3f | Accuracy (train, val): "
               "%.2f%%, %.2f%% | Throughput: %.1f img/s\n",
               e->epoch, e->epochs, e->lr, e->train_loss, loss, 100 * ss_epoch_accuracy(&e->train),
               100 * accuracy, ss_epoch_rate(e));
    }
    fflush(stdout);
}
