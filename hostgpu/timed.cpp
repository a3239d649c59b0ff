/* Timed emulation: times of tasks and links (hostgpu.h). */
#include "hostgpu/hostgpu.h"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace
{

std::atomic<bool> emulating_time{false}, spending{false};

/* GB/s[:us] */
struct link {
    double bytes_per_s = INFINITY, latency = 0; /* seconds */
};

struct link parse_link(const char *variable)
{
    const char *text = getenv(variable);
    double gb = 0, us = 0;
    char more;
    struct link l;
    if (!text)
        return l;
    const int n = sscanf(text, "%lf:%lf%c", &gb, &us, &more);
    char number[64];
    if ((n != 1 && n != 2) || !(gb > 0) || !(us >= 0) || !std::isfinite(gb + us) ||
        (n == 1 && sscanf(text, "%63[0-9.e+-]%c", number, &more) != 1))
        hostgpu::die("%s=%s: must be GB/s[:microseconds]", variable, text);
    l.bytes_per_s = gb * 1e9;
    l.latency = us * 1e-6;
    return l;
}

double seconds_over(const struct link &link, double bytes)
{
    return link.latency + bytes / link.bytes_per_s;
}

} // namespace

namespace hostgpu
{

bool emulates_time()
{
    return emulating_time;
}

bool spends()
{
    return spending;
}

double time_scale()
{
    static const long scale = environment("SS_HOSTGPU_TIME_SCALE", 1, 1, 1000);
    return (double)scale;
}

double link_seconds(double bytes)
{
    static const struct link link = parse_link("SS_HOSTGPU_NCCL_LINK");
    return seconds_over(link, bytes);
}

double host_link_seconds(double bytes)
{
    static const struct link link = parse_link("SS_HOSTGPU_HOST_LINK");
    return seconds_over(link, bytes);
}

uint64_t host_ns_of(double seconds)
{
    return (uint64_t)llround(seconds * time_scale() * 1e9);
}

extern "C" void hostgpu_emulate_time(void)
{
    emulating_time = true;
    spending = false;
}

extern "C" void hostgpu_spend(cudaStream_t stream, double seconds)
{
    const uint64_t ns = host_ns_of(seconds);
    if (!emulates_time())
        die("hostgpu_spend without timed emulation");
    spending = true;
    enqueue(stream, "a task's time", [ns] { ends_at(begun_at() + ns); });
}

} // namespace hostgpu
