/* A user-defined model: trains, saves, loads and evaluates it. Compiles as C11 and C++17:
 *
 *     cc own_model.c -o own_model $(pkg-config --cflags --libs starstep-cli)
 *     c++ -x c++ own_model.c -o own_model $(pkg-config --cflags --libs starstep-cli)
 *     starstep data make cifar100 --out data --train 512 --test 128
 *     ./own_model data run
 *     ./own_model plan --model small
 *     mpiexec -n 2 ./own_model train --model small --data-dir data --batch-size 64 --epochs 2
 *
 * DIR FOLDER: trains on the data in DIR by function calls and saves checkpoints in FOLDER. Any
 * other arguments are those of the program starstep, whose --model also accepts this model. */
#include <starstep-cli.h>
#include <starstep.h>

#include <stdio.h>
#include <sys/stat.h>

/* Two convolutions, the second one with a shortcut around it, and a linear layer. */
static enum ss_status small(struct ss_graph *g, const struct ss_model_options *o, void *user)
{
    const int channels = *(const int *)user;
    ss_value x = ss_input(g, o->channels, o->height, o->width_px);
    x = ss_relu(g, ss_batchnorm2d(g, ss_conv2d(g, x, "conv1", channels, 3, 2, 1, 0), "bn1"));
    ss_value y = ss_batchnorm2d(g, ss_conv2d(g, x, "conv2", channels, 3, 1, 1, 0), "bn2");
    x = ss_global_avgpool2d(g, ss_relu(g, ss_add(g, y, x)));
    if (o->dropout > 0)
        x = ss_dropout(g, x, o->dropout);
    ss_softmax_cross_entropy(g, ss_linear(g, x, "fc", o->classes));
    return SS_OK;
}

/* Three epochs are enough. */
static int on_epoch(const struct ss_epoch_result *e, void *user)
{
    int *calls = (int *)user;
    ++*calls;
    printf("own_model: epoch %d of %d, loss %.4f\n", (int)e->epoch, (int)e->epochs, e->train_loss);
    return e->epoch >= 3;
}

static enum ss_status train(const char *data, const char *folder)
{
    const char *const options[] = {
        "--model",  "small", "--data-dir",       data,   "--batch-size", "64", "--base-lr", "0.1",
        "--epochs", "10",    "--checkpoint-dir", folder, "--overwrite",  NULL};
    struct ss_train_result r;
    int calls = 0;
    r.size = sizeof r;
    SS_TRY(ss_train(options, on_epoch, &calls, &r));
    printf("own_model: trained %d epochs, %d steps, %d calls: loss %.4f, validation %.4f, %.0f "
           "images/s\n",
           (int)r.epochs, (int)r.steps, calls, r.train_loss, r.val_loss, r.images_per_s);
    return SS_OK;
}

static enum ss_status evaluate(const char *data, const char *folder)
{
    const char *const options[] = {"--init",       folder, "--data-dir", data,
                                   "--batch-size", "64",   NULL};
    struct ss_eval_result r;
    r.size = sizeof r;
    SS_TRY(ss_eval(options, &r));
    printf("own_model: evaluated %d images: loss %.4f, accuracy %.4f\n", (int)r.images, r.loss,
           r.accuracy);
    return SS_OK;
}

int main(int argc, char **argv)
{
    struct stat there;
    static int channels = 16;
    if (ss_model_add("small", small, &channels) != SS_OK)
        return 1;
    if (argc != 3 || stat(argv[1], &there) != 0)
        return ss_main(argc, argv);
    return train(argv[1], argv[2]) != SS_OK || evaluate(argv[1], argv[2]) != SS_OK;
}
