/* peer_death.c: watch the process of the next rank (contract in peer_death.h). */
#include "comm/peer_death.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BOARD_BYTES 4096

/* Start time of a process: field 22 of /proc/PID/stat, 0 if it cannot be read. Field 2 is the
 * program's name in parentheses, which may contain any character. */
static uint64_t read_since(long pid)
{
    char path[64], line[1024] = "";
    unsigned long long since = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t n = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[n] = '\0';
    const char *at = strrchr(line, ')');
    if (!at || sscanf(at + 1,
                      " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                      "%*d %llu",
                      &since) != 1)
        return 0;
    return since;
}

static int make_board(void)
{
#ifdef SYS_memfd_create
    int fd = (int)syscall(SYS_memfd_create, "starstep", 1u /* MFD_CLOEXEC */);
    if (fd >= 0 && ftruncate(fd, BOARD_BYTES) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
#else
    return -1;
#endif
}

void ss_peer_death_describe(struct ss_peer_death *n, int rank, int first,
                            struct ss_peer_death_card *own)
{
    struct stat space;
    *n = (struct ss_peer_death){.fd = -1, .own_board = first ? make_board() : -1};
    memset(own, 0, sizeof *own);
    own->rank = rank;
    own->pid = (int32_t)getpid();
    own->since = read_since(getpid());
    own->board = n->own_board;
    if (stat("/proc/self/ns/pid", &space) == 0) {
        own->space_dev = (uint64_t)space.st_dev;
        own->space_no = (uint64_t)space.st_ino;
        ss_boot_id(own->boot);
    }
}

/* Whether a process id denotes the same process for both ranks. */
static int see_each_other(const struct ss_peer_death_card *a, const struct ss_peer_death_card *b)
{
    return a->boot[0] && memcmp(a->boot, b->boot, sizeof a->boot) == 0 &&
           a->space_dev == b->space_dev && a->space_no == b->space_no;
}

static void map_board(struct ss_peer_death *n, const struct ss_peer_death_card *root)
{
    char path[64];
    if (root->board < 0)
        return;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)root->pid, (int)root->board);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *board = mmap(NULL, BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    n->board = board == MAP_FAILED ? NULL : board;
}

static int open_process(long pid, uint64_t since)
{
#ifdef SYS_pidfd_open
    int fd = (int)syscall(SYS_pidfd_open, pid, 0u);
    /* The descriptor denotes the process that has this pid now. */
    if (fd >= 0 && since != 0 && read_since(pid) == since)
        return fd;
    if (fd >= 0)
        close(fd);
#else
    (void)pid;
    (void)since;
#endif
    return -1;
}

void ss_peer_death_open(struct ss_peer_death *n, const struct ss_peer_death_card *own,
                        const struct ss_peer_death_card *root,
                        const struct ss_peer_death_card *next)
{
    n->rank = next->rank;
    n->pid = next->pid;
    if (own->pid == next->pid || !see_each_other(own, root) || !see_each_other(own, next))
        return;
    map_board(n, root);
    /* Without the board the end of a successful run would be reported as a death. */
    if (n->board)
        n->fd = open_process(next->pid, next->since);
}

static void stop_watching(struct ss_peer_death *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

void ss_peer_death_close(struct ss_peer_death *n)
{
    stop_watching(n);
    if (n->board)
        munmap((void *)n->board, BOARD_BYTES);
    if (n->own_board >= 0)
        close(n->own_board);
    n->board = NULL;
    n->own_board = -1;
}

int ss_peer_death_happened(struct ss_peer_death *n)
{
    struct pollfd dead = {.fd = n->fd, .events = POLLIN};
    if (n->fd < 0 || poll(&dead, 1, 0) != 1)
        return 0;
    stop_watching(n);
    return atomic_exchange(n->board, 1) == 0;
}

void ss_peer_death_end(struct ss_peer_death *n)
{
    if (n->board)
        atomic_store(n->board, 1);
}

int ss_peer_death_ended(const struct ss_peer_death *n)
{
    return n->board && atomic_load(n->board) != 0;
}
