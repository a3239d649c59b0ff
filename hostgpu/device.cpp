/* Kernels on the host: threads of a block as fibres, barriers, warp operations.
 *
 * A fibre is not one CUDA thread but a stack on which threads run: it takes the next unstarted
 * thread of the block, runs it to its end, and takes another. Only a thread that must wait (at a
 * barrier or a warp operation) holds its fibre; the next fibre then continues with the remaining
 * threads. So a kernel without barriers runs as a loop on one stack.
 *
 * All fibres of a block run in the thread of their stream and never migrate. */
#include "hostgpu/device.h"
#include "hostgpu/hostgpu.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#    define HOSTGPU_ASAN 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define HOSTGPU_ASAN 1
#    endif
#endif
#ifdef HOSTGPU_ASAN
#    include <sanitizer/asan_interface.h>
#endif
#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(HOSTGPU_UCONTEXT)
#    define HOSTGPU_UCONTEXT 1
#endif
#ifdef HOSTGPU_UCONTEXT
#    include <ucontext.h>
#endif

__thread struct hostgpu::place hostgpu::here;

/* Saves the callee-saved registers and the stack pointer to *save, and resumes at `load`. */
#ifndef HOSTGPU_UCONTEXT
extern "C" void hostgpu_switch(void **save, void *load);
#    if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.globl hostgpu_switch
.hidden hostgpu_switch
.type hostgpu_switch, @function
hostgpu_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
.size hostgpu_switch, . - hostgpu_switch
)");
#    else
asm(R"(
.text
.p2align 4
.globl hostgpu_switch
.hidden hostgpu_switch
.type hostgpu_switch, %function
hostgpu_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size hostgpu_switch, . - hostgpu_switch
)");
#    endif
#endif

namespace hostgpu
{
namespace
{

#ifdef HOSTGPU_ASAN
constexpr size_t STACK_BYTES = 256 << 10;
#else
constexpr size_t STACK_BYTES = 64 << 10;
#endif

/* A stack, or the stream's own stack (`memory` is NULL). */
struct fibre {
    void *memory = nullptr;
    size_t memory_bytes = 0;
#ifdef HOSTGPU_UCONTEXT
    ucontext_t context;
#else
    void *sp = nullptr;
#endif
    unsigned thread = 0; /* the thread that it runs */
    struct fibre *next = nullptr;
#ifdef HOSTGPU_ASAN
    const void *bottom = nullptr;
    size_t bytes = 0;
#endif

    fibre() = default;
    fibre(const fibre &) = delete;
    ~fibre()
    {
        if (!memory)
            return;
#ifdef HOSTGPU_ASAN
        __asan_unpoison_memory_region(memory, memory_bytes); /* fibre_main never returned */
#endif
        munmap(memory, memory_bytes);
    }
};

struct fibre_list {
    struct fibre *head = nullptr, *tail = nullptr;

    void push(struct fibre *f)
    {
        f->next = nullptr;
        (head ? tail->next : head) = f;
        tail = f;
    }
    void push_front(struct fibre *f)
    {
        f->next = head;
        if (!head)
            tail = f;
        head = f;
    }
    struct fibre *pop()
    {
        struct fibre *f = head;
        if (f)
            head = f->next;
        return f;
    }
    void append(struct fibre_list *other)
    {
        if (!other->head)
            return;
        (head ? tail->next : head) = other->head;
        tail = other->tail;
        other->head = nullptr;
    }
};

/* A synchronization point: a block's barrier or a warp's exchange. `count` threads have arrived. */
struct meeting {
    struct fibre_list waiting;
    unsigned count = 0;
    unsigned generation = 0;
    struct site site = {};
};

struct warp {
    struct meeting meeting;
    /* By generation: a lane may be one exchange ahead of lanes that have not read yet. */
    uint64_t values[2][32];
};

/* Runs grids; one runner per stream thread. */
class runner
{
  public:
    void run(const char *name, const dim3 &grid, unsigned threads,
             const std::function<void()> &body, unsigned order);
    int barrier(bool predicate, const struct site &site);
    const uint64_t *exchange(unsigned mask, uint64_t value, const struct site &site);
    [[noreturn]] void fibre_main();

  private:
    void run_block();
    void arrive(struct meeting *m, unsigned expected, const struct site &site);
    void switch_to(struct fibre *f);
    struct fibre *new_fibre();
    struct fibre *next_fibre();
    std::string where() const;
    [[noreturn]] void deadlock() const;

    const char *name_ = nullptr;
    const std::function<void()> *body_ = nullptr;
    unsigned threads_ = 0, started_ = 0, returned_ = 0;
    bool downwards_ = false;
    struct meeting barrier_;
    int predicates_[2] = {0, 0};
    struct warp warps_[32];
    struct fibre main_; /* the stream's own stack */
    struct fibre *self_ = &main_, *from_ = nullptr;
    struct fibre_list ready_, idle_;
    std::vector<std::unique_ptr<struct fibre>> fibres_;
};

thread_local std::unique_ptr<runner> the_runner;

void fibre_entry()
{
    the_runner->fibre_main();
}

/* Maps a stack with an inaccessible page below it, and prepares it so that the first switch to it
 * enters fibre_entry. */
struct fibre *runner::new_fibre()
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    fibres_.push_back(std::make_unique<struct fibre>());
    struct fibre *f = fibres_.back().get();
    void *m = mmap(nullptr, page + STACK_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED || mprotect(m, page, PROT_NONE))
        die("no memory for the stack of a fibre");
    f->memory = m;
    f->memory_bytes = page + STACK_BYTES;
    char *bottom = (char *)m + page;
    /* Stack tops at the same offset in a page would compete for the same cache sets. */
    const size_t bytes = STACK_BYTES - fibres_.size() * 320 % page;
#ifdef HOSTGPU_ASAN
    f->bottom = bottom;
    f->bytes = bytes;
#endif
#if defined(HOSTGPU_UCONTEXT)
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = bottom;
    f->context.uc_stack.ss_size = bytes;
    f->context.uc_link = nullptr;
    makecontext(&f->context, fibre_entry, 0);
#elif defined(__x86_64__)
    void **top = (void **)(bottom + bytes);
    top[-2] = (void *)fibre_entry; /* top[-1]: no return address; six registers below */
    f->sp = top - 8;
#else
    void **top = (void **)(bottom + bytes) - 20;
    top[11] = (void *)fibre_entry; /* x30 */
    f->sp = top;
#endif
    return f;
}

void runner::switch_to(struct fibre *f)
{
    from_ = self_;
    self_ = f;
    struct fibre *me = from_;
#ifdef HOSTGPU_ASAN
    void *fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, f->bottom, f->bytes);
#endif
#ifdef HOSTGPU_UCONTEXT
    swapcontext(&me->context, &f->context);
#else
    hostgpu_switch(&me->sp, f->sp);
#endif
#ifdef HOSTGPU_ASAN
    __sanitizer_finish_switch_fiber(fake, &from_->bottom, &from_->bytes);
#endif
    here.thread.x = me->thread;
}

/* Runnable threads come first, so that few stacks are in use at a time. */
struct fibre *runner::next_fibre()
{
    struct fibre *f = ready_.pop();
    if (f)
        return f;
    if (started_ == threads_)
        return nullptr;
    f = idle_.pop();
    return f ? f : new_fibre();
}

void runner::fibre_main()
{
#ifdef HOSTGPU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &from_->bottom, &from_->bytes);
#endif
    struct fibre *me = self_;
    for (;;) {
        while (started_ < threads_) {
            me->thread = downwards_ ? threads_ - 1 - started_ : started_;
            started_++;
            here.thread.x = me->thread;
            (*body_)();
            returned_++;
        }
        struct fibre *f = ready_.pop();
        if (!f && returned_ < threads_)
            deadlock();
        idle_.push_front(me); /* its stack is in the cache */
        switch_to(f ? f : &main_);
    }
}

std::string runner::where() const
{
    char text[256];
    snprintf(text, sizeof text, "kernel %s, block (%u,%u,%u)", name_, here.block.x, here.block.y,
             here.block.z);
    return text;
}

/* No thread can continue: reports where threads wait. */
void runner::deadlock() const
{
    std::string text = where() + ": " + std::to_string(returned_) + " of " +
                       std::to_string(threads_) + " threads returned";
    char line[512];
    if (barrier_.count) {
        snprintf(line, sizeof line, ", %u wait at %s (%s:%d)", barrier_.count, barrier_.site.what,
                 barrier_.site.file, barrier_.site.line);
        text += line;
    }
    for (unsigned w = 0; w < threads_ / 32; w++) {
        const struct meeting *m = &warps_[w].meeting;
        if (!m->count)
            continue;
        snprintf(line, sizeof line, ", %u of 32 lanes of warp %u wait at %s (%s:%d)", m->count, w,
                 m->site.what, m->site.file, m->site.line);
        text += line;
        break;
    }
    die("%s", text.c_str());
}

/* Waits for `expected` threads. The last one continues immediately and makes the others ready. */
void runner::arrive(struct meeting *m, unsigned expected, const struct site &site)
{
    if (m->count == 0)
        m->site = site;
    else if (m->site.line != site.line || m->site.what != site.what)
        die("%s: thread %u is at %s (%s:%d) while others wait at %s (%s:%d)", where().c_str(),
            here.thread.x, site.what, site.file, site.line, m->site.what, m->site.file,
            m->site.line);
    if (++m->count == expected) {
        m->count = 0;
        m->generation++;
        ready_.append(&m->waiting);
        return;
    }
    m->waiting.push(self_);
    struct fibre *f = next_fibre();
    if (!f)
        deadlock();
    switch_to(f);
}

int runner::barrier(bool predicate, const struct site &site)
{
    const unsigned g = barrier_.generation & 1;
    predicates_[g] += predicate;
    if (barrier_.count + 1 == threads_)
        predicates_[!g] = 0; /* all have read the previous one */
    arrive(&barrier_, threads_, site);
    return predicates_[g];
}

const uint64_t *runner::exchange(unsigned mask, uint64_t value, const struct site &site)
{
    if (mask != 0xffffffffu)
        die("%s: %s (%s:%d) with mask %#x: kernels here use all 32 lanes", where().c_str(),
            site.what, site.file, site.line, mask);
    struct warp *w = &warps_[here.thread.x / 32];
    uint64_t *values = w->values[w->meeting.generation & 1];
    values[here.thread.x % 32] = value;
    arrive(&w->meeting, 32, site);
    return values;
}

void runner::run_block()
{
    started_ = returned_ = 0;
    switch_to(next_fibre());
}

/* order: bit 0: blocks in descending order, bit 1: threads. */
void runner::run(const char *name, const dim3 &grid, unsigned threads,
                 const std::function<void()> &body, unsigned order)
{
    name_ = name;
    body_ = &body;
    threads_ = threads;
    downwards_ = order & 2;
    here.grid_size = {grid.x, grid.y, grid.z};
    here.block_size = {threads, 1, 1};
    here.thread = {0, 0, 0};
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    for (uint64_t i = 0; i < blocks; i++) {
        const uint64_t b = order & 1 ? blocks - 1 - i : i;
        here.block = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                      (unsigned)(b / grid.x / grid.y)};
        run_block();
    }
}

/* Draws the pseudo-random order of a launch: bits of a mixed counter. */
unsigned next_order()
{
    static const uint64_t seed = [] {
        const char *text = getenv("SS_HOSTGPU_SEED");
        return text ? strtoull(text, nullptr, 10) : 1ull;
    }();
    static uint64_t launches;
    uint64_t z = (__atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED) + seed * 0x9e3779b9u) *
                 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    return (unsigned)(z >> 61);
}

runner *this_runner(const struct site &site)
{
    if (!the_runner)
        die("%s (%s:%d) outside of a kernel", site.what, site.file, site.line);
    return the_runner.get();
}

} // namespace

int barrier(bool predicate, struct site site)
{
    return this_runner(site)->barrier(predicate, site);
}

const uint64_t *exchange(unsigned mask, uint64_t value, struct site site)
{
    return this_runner(site)->exchange(mask, value, site);
}

/* Blocks kernels while the file named by SS_HOSTGPU_STALL exists: emulates a stuck GPU. */
static void stall()
{
    static const char *file = getenv("SS_HOSTGPU_STALL");
    const struct timespec t = {0, 10000000};
    while (file && access(file, F_OK) == 0)
        nanosleep(&t, nullptr);
}

/* Returns whether this launch is selected by SS_HOSTGPU_FAULT; it faults when it runs. */
static bool shall_fault()
{
    static const long which = environment("SS_HOSTGPU_FAULT", 0, 1, 1L << 30);
    static long launches;
    return which && __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED) == which;
}

struct draw draw_kernel()
{
    const unsigned order = next_order();
    return {order, shall_fault()};
}

void launch_grid(const char *name, dim3 grid, dim3 block, cudaStream_t stream,
                 std::function<void()> thread)
{
    static const char *const blocking = getenv("CUDA_LAUNCH_BLOCKING");
    if (begin_call() != cudaSuccess)
        return;
    if (block.y != 1 || block.z != 1 || block.x == 0 || block.x > 1024 || block.x % 32)
        die("kernel %s: blocks of (%u,%u,%u) threads; one dimension, a multiple of 32, at most "
            "1024 are allowed",
            name, block.x, block.y, block.z);
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 ||
        grid.z > 65535)
        die("kernel %s: a grid of (%u,%u,%u) blocks; 1 to 2^31-1, 65535, 65535 are allowed", name,
            grid.x, grid.y, grid.z);
    if (stream_device(stream) != current_device())
        die("kernel %s: the stream is of device %d, the current device is %d", name,
            stream_device(stream), current_device());
    auto run = [name, grid, block, thread = std::move(thread)](struct draw draw) {
        stall();
        if (draw.faults) {
            fault(cudaErrorIllegalAddress);
            return;
        }
        if (!the_runner)
            the_runner = std::make_unique<runner>();
        the_runner->run(name, grid, block.x, thread, draw.order);
    };
    if (enqueue_kernel(stream, name, std::move(run)) != cudaSuccess)
        return;
    if (blocking && *blocking == '1') {
        wait_stream(stream);
        (void)standing();
    }
}

} // namespace hostgpu
