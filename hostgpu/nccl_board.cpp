/* nccl_board.cpp: shared memory in which the ranks of an emulated NCCL communicator meet.
 *
 * An id is the name of an abstract Unix socket. The process that created the id listens there,
 * and sends each connecting rank a descriptor of unnamed memory. So no files are left behind,
 * however processes end. The socket closes when all ranks have connected, or with its process. */
#include "hostgpu/nccl_internal.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace hostgpu
{
namespace nccl
{

/* Initially zero. A rank writes its own slot only. */
struct slot {
    std::atomic<uint32_t> signed_in; /* FREE, TAKEN, READY */
    int64_t gpu;
    std::atomic<uint64_t> posted[CHANNELS]; /* meetings at which this rank has arrived */
    struct call calls[CHANNELS][2];         /* the latest two calls */
};
struct shared {
    std::atomic<uint32_t> changed; /* a futex: counts all changes that a rank may wait for */
    std::atomic<int> nranks;
    std::atomic<uint32_t> abort_told;
    slot slots[board::MAX_RANKS];
};

/* One chunk of a message between two ranks, in one direction. The sender writes `posted`, the
 * receiver `taken`; while they differ, the chunk belongs to the receiver. */
struct box {
    std::atomic<uint64_t> posted, taken;
    struct call what;
    size_t bytes;
    char data[board::BOX];
};

namespace
{

enum { FREE, TAKEN, READY };
const char PREFIX[] = "ss-hostgpu-nccl-";
constexpr size_t PAGE = 4096;
constexpr size_t HEAD = (sizeof(shared) + PAGE - 1) / PAGE * PAGE;
constexpr long TICK_MS = 100; /* delay if a rank is killed between writing and waking */

size_t memory_for(int nranks)
{
    const size_t n = (size_t)nranks; /* unused boxes cost nothing */
    return HEAD + n * 2 * board::AREA + n * n * sizeof(box);
}

socklen_t address_of(const char *name, sockaddr_un *a)
{
    *a = {};
    a->sun_family = AF_UNIX;
    const size_t n = strlen(name);
    memcpy(a->sun_path + 1, name, n);
    return (socklen_t)(offsetof(sockaddr_un, sun_path) + 1 + n);
}

/* One byte with a descriptor. */
struct descriptor_message {
    char byte = 0;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    iovec data = {&byte, 1};
    msghdr header = {};
    descriptor_message()
    {
        header.msg_iov = &data;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
    }
};

bool send_descriptor(int to, int fd)
{
    descriptor_message m;
    cmsghdr *c = CMSG_FIRSTHDR(&m.header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return sendmsg(to, &m.header, MSG_NOSIGNAL) == 1;
}

/* Returns -1 and sets errno on failure; EAGAIN: no answer within a tick. */
int receive_descriptor(int from)
{
    descriptor_message m;
    const ssize_t n = recvmsg(from, &m.header, MSG_CMSG_CLOEXEC);
    const cmsghdr *c = n == 1 ? CMSG_FIRSTHDR(&m.header) : nullptr;
    if (!c) {
        errno = n < 0 ? errno : ECONNRESET;
        return -1;
    }
    int fd;
    memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

/* Sends the memory to all ranks; the first one passes their number. */
void serve(int listener, int memory)
{
    int ranks = 1;
    for (int served = 0; served < ranks;) {
        const int s = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (s < 0)
            break;
        int nranks;
        if (recv(s, &nranks, sizeof nranks, MSG_WAITALL) == (ssize_t)sizeof nranks &&
            send_descriptor(s, memory)) {
            ranks = served == 0 ? nranks : ranks;
            served++;
        }
        close(s);
    }
    close(listener);
    close(memory);
}

int make_memory(const char *name)
{
    const int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)memory_for(board::MAX_RANKS))) {
        close(fd);
        return -1;
    }
    return fd;
}

int listen_at(const char *name)
{
    sockaddr_un a;
    const socklen_t bytes = address_of(name, &a);
    const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s >= 0 && (bind(s, (sockaddr *)&a, bytes) || listen(s, board::MAX_RANKS))) {
        close(s);
        return -1;
    }
    return s;
}

int connect_to(const char *name, int nranks)
{
    sockaddr_un a;
    const socklen_t bytes = address_of(name, &a);
    const timeval tick = {0, TICK_MS * 1000};
    const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s >= 0 && (setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick) ||
                   connect(s, (sockaddr *)&a, bytes) ||
                   send(s, &nranks, sizeof nranks, MSG_NOSIGNAL) != (ssize_t)sizeof nranks)) {
        close(s);
        return -1;
    }
    return s;
}

bool is_name(const char *text)
{
    return memchr(text, 0, NCCL_UNIQUE_ID_BYTES) && strlen(text) == strlen(PREFIX) + 32 &&
           !strncmp(text, PREFIX, strlen(PREFIX));
}

void wake(struct shared *s)
{
    s->changed.fetch_add(1);
    syscall(SYS_futex, &s->changed, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool same(const spot &a, const spot &b)
{
    return a.window == b.window && a.offset == b.offset;
}

bool same(const call &a, const call &b)
{
    return a.kind == b.kind && a.type == b.type && a.op == b.op && a.root == b.root &&
           a.count == b.count && same(a.send, b.send) && same(a.recv, b.recv);
}

} // namespace

ncclResult_t open_place(ncclUniqueId *id)
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return fail(ncclSystemError, "getrandom: %s", strerror(errno));
    *id = {};
    strcpy(id->internal, PREFIX);
    for (unsigned char b : bytes)
        snprintf(id->internal + strlen(id->internal), 3, "%02x", b);
    const int memory = make_memory(id->internal);
    if (memory < 0)
        return fail(ncclSystemError, "shared memory: %s", strerror(errno));
    const int listener = listen_at(id->internal);
    if (listener < 0) {
        const int error = errno;
        close(memory);
        return fail(ncclSystemError, "socket: %s", strerror(error));
    }
    background([listener, memory] { serve(listener, memory); });
    return ncclSuccess;
}

board::~board()
{
    if (shared)
        munmap(shared.load(), bytes);
}

ncclResult_t board::map(int memory)
{
    const size_t size = memory_for(nranks);
    void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (p == MAP_FAILED)
        return fail(ncclSystemError, "mmap: %s", strerror(errno));
    shared = (struct shared *)p;
    bytes = size;
    return ncclSuccess;
}

/* Takes the rank's slot, waits until all are taken, compares GPUs. */
ncclResult_t board::sign_in(int64_t gpu)
{
    int others = 0;
    if (!shared.load()->nranks.compare_exchange_strong(others, nranks) && others != nranks)
        die("NCCL: rank %d has a communicator of %d ranks, another rank one of %d", rank, nranks,
            others);
    slot &mine = shared.load()->slots[rank];
    uint32_t state = FREE;
    if (!mine.signed_in.compare_exchange_strong(state, TAKEN))
        return fail(ncclInternalError, "two processes have rank %d", rank);
    mine.gpu = gpu;
    mine.signed_in.store(READY);
    wake(shared);
    for (int r = 0; r < nranks; r++)
        if (!wait([this, r] { return shared.load()->slots[r].signed_in.load() == READY; }))
            return fail(ncclInternalError, "the communicator was aborted during initialization");
    if (environment("SS_HOSTGPU_NCCL_SHARE_GPU", 0, 0, 1))
        return ncclSuccess;
    for (int a = 0; a < nranks; a++)
        for (int b = a + 1; b < nranks; b++)
            if (shared.load()->slots[a].gpu == shared.load()->slots[b].gpu)
                return fail(ncclInvalidUsage, "ranks %d and %d use the same GPU (bus id %lx)", a, b,
                            (unsigned long)shared.load()->slots[a].gpu);
    return ncclSuccess;
}

ncclResult_t board::join(const ncclUniqueId &id, int nranks_, int rank_, int64_t gpu)
{
    nranks = nranks_;
    rank = rank_;
    if (!is_name(id.internal))
        return fail(ncclInvalidArgument, "the id was not created by ncclGetUniqueId");
    const int s = connect_to(id.internal, nranks);
    if (s < 0)
        return fail(ncclSystemError, "the id's socket is closed (the process that created it has "
                                     "ended, or the communicator is complete)");
    int memory;
    do
        memory = receive_descriptor(s);
    while (memory < 0 && (errno == EAGAIN || errno == EINTR) && !stopped);
    close(s);
    if (memory < 0)
        return fail(ncclSystemError, "the process that created the id has ended");
    ncclResult_t result = map(memory);
    close(memory);
    return result == ncclSuccess ? sign_in(gpu) : result;
}

bool board::wait(const std::function<bool()> &condition)
{
    for (;;) {
        const uint32_t seen = shared.load()->changed.load();
        if (stopped)
            return false;
        if (condition())
            return true;
        const timespec tick = {0, TICK_MS * 1000000};
        syscall(SYS_futex, &shared.load()->changed, FUTEX_WAIT, seen, &tick, nullptr, 0);
    }
}

char *board::area(int r, uint64_t meeting) const
{
    return (char *)shared.load() + HEAD + ((size_t)r * 2 + meeting % 2) * AREA;
}

char *board::coming(int r) const
{
    return area(r, met[STREAMS]);
}

char *board::latest(int r) const
{
    return area(r, met[STREAMS] - 1);
}

void board::compare(channel channel, const call &call, unsigned half) const
{
    for (int r = 0; r < nranks; r++) {
        const struct call &other = shared.load()->slots[r].calls[channel][half];
        if (!same(call, other))
            die("NCCL: the ranks' calls differ: rank %d calls %s, rank %d calls %s", rank,
                describe(call).c_str(), r, describe(other).c_str());
    }
}

bool board::meet(channel channel, const call &call)
{
    const unsigned half = met[channel] % 2;
    const uint64_t number = met[channel] + 1;
    slot &mine = shared.load()->slots[rank];
    mine.calls[channel][half] = call;
    mine.posted[channel].store(number);
    wake(shared);
    for (int r = 0; r < nranks; r++)
        if (!wait([&] { return shared.load()->slots[r].posted[channel].load() >= number; }))
            return false;
    met[channel] = number;
    compare(channel, call, half);
    return true;
}

/* Transfers one chunk; false: not possible yet. */
bool board::step(transfer &t)
{
    const int from = t.sends ? rank : t.peer, to = t.sends ? t.peer : rank;
    char *boxes = (char *)shared.load() + HEAD + (size_t)nranks * 2 * AREA;
    struct box *b = (struct box *)boxes + from * nranks + to;
    if ((b->posted.load() == b->taken.load()) != t.sends)
        return false;
    if (t.sends) {
        b->what = t.what;
        b->bytes = std::min(BOX, t.bytes - t.moved);
        memcpy(b->data, t.data + t.moved, b->bytes);
    } else {
        if (!same(t.what, b->what))
            die("NCCL: the ranks' calls differ: rank %d sends %s, rank %d receives %s", t.peer,
                describe(b->what).c_str(), rank, describe(t.what).c_str());
        memcpy(t.data + t.moved, b->data, b->bytes);
    }
    t.moved += b->bytes;
    t.ended = t.moved == t.bytes;
    (t.sends ? b->posted : b->taken)++;
    return true;
}

bool board::pass(std::vector<transfer> &transfers)
{
    const auto waits = [&transfers](const transfer &t) { /* an earlier transfer must end first */
                                                         for (const transfer *u = transfers.data();
                                                              u != &t; u++)
                                                             if (!u->ended && u->peer == t.peer &&
                                                                 u->sends == t.sends)
                                                                 return true;
                                                         return false;
    };
    bool left = true;
    while (left) {
        bool moved = false;
        if (!wait([&] {
                left = false;
                for (transfer &t : transfers) {
                    moved = (!t.ended && !waits(t) && step(t)) || moved;
                    left = left || !t.ended;
                }
                return moved || !left;
            }))
            return false;
        if (moved)
            wake(shared);
    }
    return true;
}

bool board::pause(long ms)
{
    while (!stopped && ms != 0) {
        const long step = ms > 0 && ms < 10 ? ms : 10;
        const timespec t = {0, step * 1000000};
        nanosleep(&t, nullptr);
        ms -= ms > 0 ? step : 0;
    }
    return !stopped;
}

void board::abort()
{
    stopped = true;
    if (struct shared *s = shared) /* if NULL: a joining rank checks `stopped` first */
        wake(s);
}

bool board::aborted() const
{
    return stopped;
}

void board::tell_abort()
{
    if (struct shared *s = shared)
        s->abort_told = 1;
}

bool board::told_of_abort() const
{
    static const bool tells = environment("SS_HOSTGPU_NCCL_TELL_ABORT", 0, 0, 1) != 0;
    const struct shared *s = shared;
    return tells && s && s->abort_told;
}

} // namespace nccl
} // namespace hostgpu
