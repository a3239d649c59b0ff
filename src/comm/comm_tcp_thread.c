/* comm_tcp_thread.c: the thread that owns all connections. It starts queued collectives, moves
 * frames, exchanges heartbeats, and sleeps in epoll in between. */
#ifdef HAVE_CONFIG_H
#    include "config.h"
#endif
#include "comm/call_timeout.h"
#include "comm/comm_tcp.h"
#include "core/clock.h"
#include "core/log.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 64 };

static void push_all(struct ss_tcp *tcp)
{
    while (tcp->push_all) {
        tcp->push_all = 0;
        for (int i = 0; i < tcp->npeers; i++)
            ss_tcp_push(tcp, &tcp->peers[i]);
    }
}

/* Start all queued collectives. Returns 1 when the thread should end. */
static int take_queue(struct ss_tcp *tcp)
{
    pthread_mutex_lock(&tcp->lock);
    struct ss_tcp_op *op = tcp->queue.first;
    int stop = tcp->stop, end = tcp->abort;
    tcp->queue.first = NULL;
    tcp->queue.end = &tcp->queue.first;
    pthread_mutex_unlock(&tcp->lock);
    if (end)
        ss_tcp_end_own(tcp, tcp->abort_text);
    if (op)
        *tcp->under_way.end = op;
    for (; op; op = op->next) {
        op->seq = ++tcp->started;
        ss_watch_note(&tcp->last, &op->request);
        tcp->under_way.end = &op->next;
    }
    ss_tcp_begin(tcp);
    return stop && !tcp->under_way.first;
}

static void send_heartbeats(struct ss_tcp *tcp)
{
    for (int i = 0; i < tcp->npeers; i++)
        tcp->peers[i].heartbeat_due = 1;
    tcp->push_all = 1;
    push_all(tcp);
}

static void check_deadline(struct ss_tcp *tcp)
{
    char text[SS_TCP_TEXT];
    struct ss_heartbeat own = ss_tcp_own_heartbeat(tcp);
    if (!ss_watch_check(tcp->comm, tcp->ranks, &own, tcp->clock.now_s, text, sizeof text))
        return;
    ss_fail(SS_ERR_TIMEOUT, "%s", text);
    if (tcp->comm->rank == 0)
        ss_tcp_end(tcp, text);
    ss_tcp_end_own(tcp, text);
}

static uint64_t of_seconds(double seconds)
{
    return seconds > 0 ? (uint64_t)(1e9 * seconds) : 0;
}

/* Sleep until an event occurs, at most ns, and handle it. */
static void handle_events(struct ss_tcp *tcp, uint64_t ns)
{
    /* epoll_wait itself has a resolution of milliseconds. */
    const struct timespec most = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    struct pollfd any = {.fd = tcp->epoll, .events = POLLIN};
    struct epoll_event events[EVENTS];
    int n = ppoll(&any, 1, &most, NULL);
    if (n > 0)
        n = epoll_wait(tcp->epoll, events, EVENTS, 0);
    if (n < 0 && errno != EINTR) {
        ss_fail(SS_ERR_LIBRARY, "waiting for other ranks: %s", strerror(errno));
        ss_tcp_end_own(tcp, ss_log_last_error());
    }
    ss_watch_clock_advance(&tcp->clock);
    for (int i = 0; i < n; i++) {
        struct ss_tcp_peer *peer = events[i].data.ptr;
        uint64_t times;
        if (!peer) {
            (void)!read(tcp->wake, &times, sizeof times); /* reset the counter */
            continue;
        }
        ss_tcp_pull(tcp, peer);
        ss_tcp_push(tcp, peer);
    }
}

/* Exchange BYE frames after the last barrier: a connection closed too early would discard data that
 * are still in transit. */
static void send_goodbye(struct ss_tcp *tcp)
{
    double deadline = ss_seconds() + tcp->comm->timeout_s;
    for (int i = 0; i < tcp->npeers; i++)
        tcp->peers[i].bye_due = 1;
    tcp->push_all = 1;
    for (;;) {
        int here = 0;
        push_all(tcp);
        for (int i = 0; i < tcp->npeers; i++)
            here += !tcp->peers[i].gone || tcp->peers[i].bye_due || tcp->peers[i].out_left > 0;
        double left = deadline - ss_seconds();
        if (here == 0 || left <= 0)
            return;
        handle_events(tcp, of_seconds(left));
    }
}

void *ss_tcp_thread(void *arg)
{
    struct ss_tcp *tcp = arg;
    ss_log_set_patience(SS_LAST_WORDS_S);
    prctl(PR_SET_TIMERSLACK, 1000); /* the default of 50 us would double short sleeps */
    tcp->clock.ns = ss_now_ns();
    for (;;) {
        /* Nothing here blocks, except that polling a watched operation may hang in a GPU's
         * driver. */
        ss_call_timeout_set(tcp->comm->timeout_s + 5,
                            "a call of the communication thread has hung");
        if (take_queue(tcp))
            break;
        const uint64_t watched = ss_tcp_poll_watched(tcp);
        push_all(tcp);
        if (tcp->clock.now_s >= tcp->next_heartbeat_s) {
            tcp->next_heartbeat_s = tcp->clock.now_s + tcp->heartbeat_every_s;
            send_heartbeats(tcp);
            check_deadline(tcp);
        }
        const uint64_t heartbeat = of_seconds(tcp->next_heartbeat_s - tcp->clock.now_s);
        handle_events(tcp, watched < heartbeat ? watched : heartbeat);
    }
    send_goodbye(tcp); /* has its own, earlier deadline */
    ss_call_timeout_clear();
    return NULL;
}
