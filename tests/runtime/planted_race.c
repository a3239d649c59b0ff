/* planted_race.c: two StarPU tasks with a data race, for test_planted_race.sh. Both add to one
 * number. Without an argument, the number is not declared to StarPU, and the tasks wait for each
 * other, so that two workers add simultaneously. With an argument, StarPU runs them one after the
 * other. */
#include <starpu.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long number;
static atomic_int begun;

static void add(void *buffers[], void *together)
{
    (void)buffers;
    /* Relaxed: no ordering that would hide the race from the sanitizer. */
    atomic_fetch_add_explicit(&begun, 1, memory_order_relaxed);
    for (int i = 0; together && i < 60000 && atomic_load_explicit(&begun, memory_order_relaxed) < 2;
         i++)
        usleep(1000);
    for (int i = 0; i < 100; i++) {
        number++;
        usleep(100);
    }
}

static struct starpu_codelet without_data = {.cpu_funcs = {add}, .name = "race"};
static struct starpu_codelet with_data = {
    .cpu_funcs = {add}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "no race"};

int main(int argc, char **argv)
{
    struct starpu_conf conf;
    starpu_data_handle_t handle;
    (void)argv;
    starpu_conf_init(&conf);
    conf.ncpus = 2;
    conf.sched_policy_name = "prio"; /* as in training */
    if (starpu_init(&conf))
        return EXIT_FAILURE;
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&number, sizeof number);
    for (int i = 0; i < 2; i++) {
        struct starpu_task *task = starpu_task_create();
        task->cl = argc > 1 ? &with_data : &without_data;
        if (argc > 1)
            task->handles[0] = handle;
        else
            task->cl_arg = &number; /* not NULL: wait for the other task */
        if (starpu_task_submit(task))
            return EXIT_FAILURE;
    }
    starpu_task_wait_for_all();
    starpu_data_unregister(handle);
    starpu_shutdown();
    printf("%ld\n", number);
    return EXIT_SUCCESS;
}
