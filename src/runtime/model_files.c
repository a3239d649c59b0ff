#include "runtime/model_files.h"
#include "core/clock.h"
#include "core/folder.h"
#include "core/log.h"
#include "kernels/kernels.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <limits.h>
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    HOST_BYTES = 65, /* StarPU's limit of a host name */
    /* StarPU truncates longer file names; it appends folders, a model and a host to this path. */
    PLACE_BYTES = 200,
    WAIT_S = 600,
};

static char place[PLACE_BYTES];
static int lock = -1;
/* Values in the environment, modified in place, because setenv must not be called once there are
 * threads. calibrate, bus_calibrate: set by the user, or NULL; only the first rank applies them.
 * host: name of the node kind, empty until StarPU starts, as GPUs are queried only then; NULL:
 * set by the user. */
static char *calibrate, *bus_calibrate, *host;

static enum ss_status put(const char *name, const char *value, char **out)
{
    if (setenv(name, value, 1))
        return ss_fail_memory("the environment", strlen(value));
    *out = getenv(name);
    return SS_OK;
}

static enum ss_status take_number(const char *name, char most, char **out)
{
    const char *value = getenv(name);
    if (!value)
        return SS_OK;
    if (strlen(value) != 1 || *value < '0' || *value > most)
        return ss_fail(SS_ERR_INVALID, "%s: \"%.80s\" is not a number from 0 to %c", name, value,
                       most);
    return put(name, value, out);
}

static int is_wished(const char *number)
{
    return number && *number != '0';
}

void ss_model_files_only_read(void)
{
    if (calibrate)
        *calibrate = '0';
    if (bus_calibrate)
        *bus_calibrate = '0';
}

int ss_model_files_calibrates(void)
{
    return is_wished(calibrate);
}

int ss_scheduler_uses_models(void)
{
    const char *name = getenv("STARPU_SCHED");
    return name && !strncmp(name, "dm", 2);
}

/* Only these schedulers use bus measurements. If the variable is set, even to 0, StarPU measures
 * missing ones. */
static int needs_buses(void)
{
    return bus_calibrate || ss_scheduler_uses_models();
}

/* Value of starpu_conf.bus_calibrate; 0: not supported by a StarPU without the patch. */
#ifdef STARPU_BUS_CALIBRATE_NEVER
enum { NEVER = STARPU_BUS_CALIBRATE_NEVER };
#else
enum { NEVER = 0 };
#endif

/* 1 if StarPU may write. dm schedulers calibrate entries with few samples. */
static int writes(void)
{
    return NEVER == 0 || ss_model_files_calibrates() || needs_buses();
}

/* Creates dir and its parents, and checks that it can hold a few small files. On failure sets
 * *why and returns 0. */
static int can_hold(const char *dir, char *why, size_t capacity)
{
    static const char content[8192];
    char file[PATH_MAX] = "";
    ss_log_capture(why, capacity);
    enum ss_status status = ss_folder_join(file, sizeof file, dir, "bus");
    if (status == SS_OK)
        status = ss_folder_make(file);
    ss_log_capture(NULL, 0);
    if (status != SS_OK)
        return 0;
    snprintf(file, sizeof file, "%s/bus/probe-XXXXXX", dir);
    int fd = mkostemp(file, O_CLOEXEC);
    int ok = fd >= 0 && write(fd, content, sizeof content) == (ssize_t)sizeof content;
    if (!ok)
        snprintf(why, capacity, "%s: %s", dir, strerror(errno));
    if (fd >= 0) {
        ok &= close(fd) == 0;
        unlink(file);
    }
    return ok;
}

/* For reading, an existing path must be a folder. */
static int is_good(const char *dir, char *why, size_t capacity)
{
    struct stat info;
    if (writes())
        return can_hold(dir, why, capacity);
    if (stat(dir, &info) || S_ISDIR(info.st_mode))
        return 1;
    snprintf(why, capacity, "%s: %s", dir, strerror(ENOTDIR));
    return 0;
}

/* 1 if dir is a folder that only this user can write. It may already exist. */
static int is_own(const char *dir)
{
    struct stat info;
    if (writes() && mkdir(dir, 0700) && errno != EEXIST)
        return 0;
    return !lstat(dir, &info) && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
           !(info.st_mode & (S_IWGRP | S_IWOTH));
}

/* Returns the value of the first variable that is set; "" if all are unset. */
static const char *first_set(const char *const *names, const char **which)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        *which = *names;
        if (value && *value)
            return value;
    }
    return "";
}

/* Sets place to FORMAT of name if it fits, otherwise to "". */
static int name_place(const char *format, const char *name)
{
    const int n = snprintf(place, sizeof place, format, name);
    if (n < 0 || n >= (int)sizeof place)
        place[0] = '\0';
    return place[0] != '\0';
}

/* A folder named by a variable must be usable. */
static enum ss_status choose_named(const char *variable, const char *format, const char *name)
{
    char why[512];
    if (!name_place(format, name))
        return ss_fail(SS_ERR_INVALID, "%s: \"%.60s...\" exceeds StarPU's limit of %d bytes",
                       variable, name, PLACE_BYTES);
    return is_good(place, why, sizeof why) ? SS_OK : ss_fail(SS_ERR_IO, "%s: %s", variable, why);
}

/* No variable names a folder: use HOME's, or this user's own in a temporary folder. For reading,
 * the same folder as for writing, if it exists. */
static enum ss_status choose_any(const char *home)
{
    const char *const temporary[] = {getenv("TMPDIR"), "/tmp", "/dev/shm"};
    char own[64], why[512] = "no HOME";
    snprintf(own, sizeof own, "%%s/starstep-starpu-%u", (unsigned)geteuid());
    if (*home && name_place("%s/.starpu/sampling", home) && is_good(place, why, sizeof why))
        return SS_OK;
    for (size_t i = 0; i < sizeof temporary / sizeof *temporary; i++)
        if (temporary[i] && *temporary[i] && name_place(own, temporary[i]) && is_own(place) &&
            is_good(place, why, sizeof why))
            return SS_OK;
    return !writes()
               ? SS_OK
               : ss_fail(SS_ERR_IO,
                         "StarPU needs a writable folder for a few small files; none found in "
                         "HOME, TMPDIR, /tmp and /dev/shm (%s); set STARPU_PERF_MODEL_DIR",
                         why);
}

enum ss_status ss_model_files_choose(void)
{
    static const char *const homes[] = {"XDG_CACHE_HOME", "STARPU_HOME", "HOME", NULL};
    char blank[HOST_BYTES], *set;
    const char *own = getenv("STARPU_PERF_MODEL_DIR"), *kind = getenv("STARPU_HOSTNAME"), *which;
    const char *home = first_set(homes, &which);
    SS_TRY(take_number("STARPU_CALIBRATE", '2', &calibrate));
    SS_TRY(take_number("STARPU_BUS_CALIBRATE", '1', &bus_calibrate));
    if (own && *own)
        SS_TRY(choose_named("STARPU_PERF_MODEL_DIR", "%s", own));
    else if (!strcmp(which, "STARPU_HOME"))
        SS_TRY(choose_named(which, "%s/.starpu/sampling", home));
    else
        SS_TRY(choose_any(home));
    SS_TRY(put("STARPU_PERF_MODEL_DIR", place, &set));
    if (kind && *kind)
        return SS_OK;
    memset(blank, ' ', sizeof blank - 1);
    blank[sizeof blank - 1] = '\0';
    SS_TRY(put("STARPU_HOSTNAME", blank, &host));
    *host = '\0';
    return SS_OK;
}

/* Appends text to a file name of n bytes, at most `most` bytes; replaces special characters by
 * "_". */
static size_t add(char *name, size_t n, const char *text, size_t most)
{
    for (size_t end = n + most; *text && n < end; text++)
        if (isalnum((unsigned char)*text))
            name[n++] = *text;
        else if (n && name[n - 1] != '_' && name[n - 1] != '-')
            name[n++] = '_';
    while (n && name[n - 1] == '_')
        n--;
    name[n] = '\0';
    return n;
}

/* Example: "AMD_EPYC_9454_48_Core_Proc-96c2n-4xNVIDIA_H100_80GB". */
static enum ss_status name_kind(char *out)
{
    hwloc_topology_t topology;
    char counts[48], gpu[64] = "GPU";
    if (hwloc_topology_init(&topology))
        return ss_fail(SS_ERR_LIBRARY, "hwloc: cannot create a topology");
    if (hwloc_topology_load(topology)) {
        hwloc_topology_destroy(topology);
        return ss_fail(SS_ERR_LIBRARY, "hwloc: cannot read this machine's topology");
    }
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    snprintf(counts, sizeof counts, "-%dc%dn", hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE),
             hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE));
    size_t n = add(out, 0, model ? model : "CPU", 26);
    hwloc_topology_destroy(topology);
    n += (size_t)snprintf(out + n, HOST_BYTES - n, "%s", counts);
#ifdef STARPU_USE_CUDA
    const int gpus = ss_cuda_kernels.count();
    if (gpus > 0 && ss_cuda_kernels.name(0, gpu, sizeof gpu) == SS_OK)
        n += (size_t)snprintf(out + n, HOST_BYTES - n, "-%dx", gpus);
    if (gpus > 0)
        add(out, n, gpu, HOST_BYTES - 1 - n);
#else
    (void)gpu;
#endif
    return SS_OK;
}

/* Waits while another process is measuring. A file system without locks never blocks. */
static enum ss_status take_lock(const char *path, int kind)
{
    const struct timespec pause = {0, 20000000};
    const uint64_t begin_ns = ss_now_ns();
    lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0)
        return ss_fail(SS_ERR_IO, "%s: %s", path, strerror(errno));
    while (flock(lock, kind | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR)) {
        if (ss_now_ns() - begin_ns > WAIT_S * UINT64_C(1000000000))
            return ss_fail(
                SS_ERR_TIMEOUT,
                "%s: another process has held this lock for %d s, while it measures this "
                "kind of node; end it, or set STARPU_PERF_MODEL_DIR to another folder",
                path, WAIT_S);
        nanosleep(&pause, NULL);
    }
    return SS_OK;
}

enum ss_status ss_model_files_name(void)
{
    return host && !*host ? name_kind(host) : SS_OK;
}

enum ss_status ss_model_files_begin(struct starpu_conf *conf)
{
    char path[PATH_MAX];
    SS_TRY(ss_model_files_name());
    if (NEVER != 0 && !needs_buses()) {
        conf->bus_calibrate = NEVER;
        return SS_OK;
    }
    const char *kind = getenv("STARPU_HOSTNAME");
    snprintf(path, sizeof path, "%s/bus/%s.config", place, kind);
    const int measured = !access(path, R_OK) && !is_wished(bus_calibrate);
    snprintf(path, sizeof path, "%s/bus/%s.lock", place, kind);
    enum ss_status status = take_lock(path, measured ? LOCK_SH : LOCK_EX);
    if (status != SS_OK)
        ss_model_files_end();
    return status;
}

void ss_model_files_end(void)
{
    if (lock >= 0)
        close(lock);
    lock = -1;
}
