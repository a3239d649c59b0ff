/* nccl_memory.c: memory that NCCL can access without internal copies (contract in nccl.h). */
#include "comm/nccl_internal.h"
#include "core/log.h"

#include <cuda_runtime.h>
#include <stdlib.h>

#define WHAT "registration (NCCL_WIN_ENABLE=0: no windows)" /* short: SS_WATCH_WHAT */

enum {
    FIRST_WITH_MEMORY = 21900, /* ncclMemAlloc, ncclCommRegister */
    FIRST_WITH_WINDOWS = 22700
};

/* Memory from ncclMemAlloc; all other memory is from ss_cuda_alloc. */
struct piece {
    struct piece *next;
    void *data;
};
static struct piece *pieces;
static pthread_mutex_t pieces_lock = PTHREAD_MUTEX_INITIALIZER;

/* Allocate with ncclMemAlloc; NULL: not supported here. */
static void *take(size_t bytes)
{
    int version = 0;
    void *data = NULL;
    struct piece *p;
    if (ncclGetVersion(&version) != ncclSuccess || version < FIRST_WITH_MEMORY)
        return NULL;
    p = malloc(sizeof *p);
    if (!p)
        return NULL;
    if (ncclMemAlloc(&data, bytes) != ncclSuccess || !data) {
        cudaGetLastError(); /* clear it, or the next launch would report it */
        free(p);
        return NULL;
    }
    p->data = data;
    pthread_mutex_lock(&pieces_lock);
    p->next = pieces;
    pieces = p;
    pthread_mutex_unlock(&pieces_lock);
    return data;
}

enum ss_status ss_nccl_alloc(struct ss_device *gpu, size_t bytes, const char *what, void **out)
{
    SS_TRY(ss_cuda_synchronize(gpu)); /* also sets the GPU for this thread */
    void *data = take(bytes > 0 ? bytes : 1);
    if (!data)
        return ss_cuda_alloc(gpu, bytes, what, out);
    enum ss_status status = ss_cuda_adopt(gpu, data, bytes, what);
    if (status != SS_OK)
        ss_nccl_free(data);
    else
        *out = data;
    return status;
}

void ss_nccl_free(void *data)
{
    if (!data)
        return;
    pthread_mutex_lock(&pieces_lock);
    struct piece **at = &pieces;
    while (*at && (*at)->data != data)
        at = &(*at)->next;
    struct piece *p = *at;
    if (p)
        *at = p->next;
    pthread_mutex_unlock(&pieces_lock);
    if (!p) {
        ss_cuda_free(data);
        return;
    }
    ss_cuda_disown(data);
    ncclMemFree(data);
    free(p);
}

static int from_nccl(const void *data)
{
    pthread_mutex_lock(&pieces_lock);
    const struct piece *p = pieces;
    while (p && p->data != data)
        p = p->next;
    pthread_mutex_unlock(&pieces_lock);
    return p != NULL;
}

/* Whether `could` is set on all ranks, into *all. Collective. */
static enum ss_status all_could(struct ss_nccl *n, int could, int *all)
{
    int any;
    SS_TRY(ss_comm_any(n->control, !could, &any, WHAT));
    *all = !any;
    return SS_OK;
}

#if NCCL_VERSION_CODE >= 22700
/* A refused window is an error only if the communicator has failed because of it. */
static enum ss_status begin_window(struct ss_nccl *n, void *data, size_t bytes, int *could)
{
    ncclWindow_t *window = &n->window[n->nwindows];
    ncclResult_t state = ncclSuccess;
    *window = NULL;
    ss_nccl_begin_call(n);
    ncclResult_t result =
        ncclCommWindowRegister(n->comm, data, bytes, window, NCCL_WIN_COLL_SYMMETRIC);
    *could = result == ncclSuccess || result == ncclInProgress;
    int hurt =
        !*could && (ncclCommGetAsyncError(n->comm, &state) != ncclSuccess || state != ncclSuccess);
    ss_nccl_end_call(n);
    if (!hurt)
        return SS_OK;
    return ss_nccl_fail(n, WHAT, "ncclCommWindowRegister", result);
}

static void end_window(struct ss_nccl *n, ncclWindow_t window)
{
    ss_nccl_begin_call(n);
    ncclCommWindowDeregister(n->comm, window);
    ss_nccl_end_call(n);
}

static enum ss_status register_window(struct ss_nccl *n, void *data, size_t bytes, int *done)
{
    int could =
        n->version >= FIRST_WITH_WINDOWS && n->nwindows < SS_NCCL_MAX_REGISTERED && from_nccl(data);
    SS_TRY(all_could(n, could, done));
    if (!*done)
        return SS_OK;
    enum ss_status status = begin_window(n, data, bytes, &could);
    SS_TRY(all_could(n, status == SS_OK, done));
    if (!*done)
        return status != SS_OK ? status : SS_ERR_COMM;
    SS_TRY(all_could(n, could, done));
    SS_TRY(*done ? ss_nccl_wait_ready(n, WHAT) : SS_OK);
    /* NCCL succeeds without a window where it cannot use one. */
    could = could && n->window[n->nwindows];
    SS_TRY(all_could(n, could, done));
    if (*done)
        n->nwindows++;
    else if (could)
        end_window(n, n->window[n->nwindows]);
    return *done ? SS_OK : ss_nccl_wait_ready(n, WHAT);
}
#else
static enum ss_status register_window(struct ss_nccl *n, void *data, size_t bytes, int *done)
{
    (void)n;
    (void)data;
    (void)bytes;
    *done = 0;
    return SS_OK;
}
#endif

/* Local to each rank; a rank that cannot register does not affect the others. */
static enum ss_status register_buffer(struct ss_nccl *n, void *data, size_t bytes, void **handle)
{
    *handle = NULL;
    ss_nccl_begin_call(n);
    ncclResult_t result = n->version >= FIRST_WITH_MEMORY
                              ? ncclCommRegister(n->comm, data, bytes, handle)
                              : ncclInvalidUsage;
    ss_nccl_end_call(n);
    if (result == ncclSuccess || result == ncclInProgress || result == ncclInvalidUsage ||
        result == ncclInvalidArgument)
        return SS_OK; /* the last two: not supported on this system */
    return ss_nccl_fail(n, WHAT, "ncclCommRegister", result);
}

struct told {
    struct ss_nccl *nccl;
    void *data;
    size_t bytes;
};

static enum ss_status register_there(void *arg)
{
    const struct told *t = arg;
    struct ss_nccl *n = t->nccl;
    void *data = t->data;
    const size_t bytes = t->bytes;
    int done;
    SS_TRY(register_window(n, data, bytes, &done));
    if (done || n->nhandles == SS_NCCL_MAX_REGISTERED)
        return SS_OK;
    void **handle = &n->handle[n->nhandles];
    enum ss_status status = register_buffer(n, data, bytes, handle);
    SS_TRY(all_could(n, status == SS_OK, &done));
    if (!done)
        return status != SS_OK ? status : SS_ERR_COMM;
    SS_TRY(ss_nccl_wait_ready(n, WHAT));
    n->nhandles += *handle != NULL;
    return SS_OK;
}

enum ss_status ss_nccl_register(struct ss_nccl *n, void *data, size_t bytes)
{
    struct told t = {n, data, bytes};
    return ss_nccl_try(n, register_there, &t);
}

const char *ss_nccl_registered(const struct ss_nccl *n)
{
#if NCCL_VERSION_CODE >= 22700
    if (n->nwindows > 0)
        return "windows";
#endif
    return n->nhandles > 0 ? "buffers" : "none";
}

void ss_nccl_deregister_all(struct ss_nccl *n)
{
#if NCCL_VERSION_CODE >= 22700
    while (n->nwindows > 0) {
        end_window(n, n->window[--n->nwindows]);
        ss_nccl_wait_ready(n, "end of NCCL");
    }
#endif
    ss_nccl_begin_call(n);
    while (n->nhandles > 0)
        ncclCommDeregister(n->comm, n->handle[--n->nhandles]);
    ss_nccl_end_call(n);
}
