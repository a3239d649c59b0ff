/* fail_submit.c: injects a failure into the task submission with the number FAIL_SUBMIT. Linked
 * into the program, so that its functions preempt those of the libraries. With
 * FAIL_SUBMIT_IN_FFLUSH the submission waits until another thread calls fflush, and that thread
 * resumes only some time after the failure. */
#include <dlfcn.h>
#include <errno.h>
#include <starpu.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#undef starpu_task_submit

enum { TICK_US = 1000, MOST_TICKS = 20000, LATE_TICKS = 500 };

static atomic_long submitted;
static atomic_int flushing, failed;

static void wait_for(atomic_int *flag)
{
    for (int i = 0; i < MOST_TICKS && !atomic_load(flag); i++)
        usleep(TICK_US);
}

int starpu_task_submit(struct starpu_task *task)
{
    const char *at = getenv("FAIL_SUBMIT");
    if (at && atomic_fetch_add(&submitted, 1) + 1 == atol(at)) {
        if (getenv("FAIL_SUBMIT_IN_FFLUSH"))
            wait_for(&flushing);
        atomic_store(&failed, 1);
        return -ENODEV;
    }
    int (*next)(struct starpu_task *);
    *(void **)&next = dlsym(RTLD_NEXT, "starpu_task_submit");
    return next(task);
}

int fflush(FILE *f)
{
    if (getenv("FAIL_SUBMIT_IN_FFLUSH") && gettid() != getpid() && !atomic_exchange(&flushing, 1)) {
        wait_for(&failed);
        usleep(LATE_TICKS * TICK_US);
    }
    int (*next)(FILE *);
    *(void **)&next = dlsym(RTLD_NEXT, "fflush");
    return next(f);
}
