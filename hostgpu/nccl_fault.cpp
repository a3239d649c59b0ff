/* nccl_fault.cpp: injected faults of the emulated NCCL: SS_HOSTGPU_NCCL_FAULT, see README.md. */
#include "hostgpu/nccl_internal.h"

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <sstream>

namespace hostgpu
{
namespace nccl
{

namespace
{

const char NAME[] = "SS_HOSTGPU_NCCL_FAULT";

[[noreturn]] void bad(const std::string &text, const char *why)
{
    die("%s: \"%s\": %s; must be RANK:CALL:KIND[:VALUE], where CALL is a number or a name and "
        "KIND is delay, fail, async, hang or corrupt",
        NAME, text.c_str(), why);
}

struct place {
    nccl::at at;
    const char *name, *call;
};
const place places[] = {
    {at::all_reduce, "sum", "ncclAllReduce"},
    {at::id, "id", "ncclGetUniqueId"},
    {at::init, "init", "ncclCommInitRankConfig"},
    {at::memory, "memory", "ncclMemAlloc"},
    {at::window, "window", "ncclCommWindowRegister"},
    {at::window_end, "window-end", "ncclCommWindowDeregister"},
    {at::registration, "register", "ncclCommRegister"},
    {at::registration_end, "deregister", "ncclCommDeregister"},
    {at::finalize, "finalize", "ncclCommFinalize"},
    {at::destroy, "destroy", "ncclCommDestroy"},
    {at::abort, "abort", "ncclCommAbort"},
    {at::state, "state", "ncclCommGetAsyncError"},
};

long number(const std::string &text, const std::string &all)
{
    char *end = nullptr;
    errno = 0;
    const long value = strtol(text.c_str(), &end, 10);
    if (errno || text.empty() || *end || value < 0)
        bad(all, "invalid number");
    return value;
}

fault_kind find_kind(const std::string &text, const std::string &all)
{
    const struct {
        const char *name;
        fault_kind kind;
    } kinds[] = {{"delay", fault_kind::delay},
                 {"fail", fault_kind::fail},
                 {"async", fault_kind::async},
                 {"hang", fault_kind::hang},
                 {"corrupt", fault_kind::corrupt}};
    for (const auto &k : kinds)
        if (text == k.name)
            return k.kind;
    bad(all, "unknown kind");
}

/* "7", "bytes.1048576", "bytes.1048576.2", "window", "window.2" */
void parse_call(const std::string &text, const std::string &all, fault *f)
{
    if (text.find_first_not_of("0123456789") == std::string::npos) {
        f->call = number(text, all);
        return;
    }
    const size_t dot = text.find('.');
    if (text.compare(0, dot, "bytes") == 0 && dot != std::string::npos) {
        const size_t second = text.find('.', dot + 1);
        f->bytes = number(text.substr(dot + 1, second - dot - 1), all);
        f->call = second == std::string::npos ? 0 : number(text.substr(second + 1), all);
        return;
    }
    for (const place &p : places) {
        if (text.substr(0, dot) != p.name)
            continue;
        f->at = p.at;
        f->call = dot == std::string::npos ? 0 : number(text.substr(dot + 1), all);
        if (p.at == at::init && f->call > 0)
            bad(all, "a communicator is initialized once");
        return;
    }
    bad(all, "unknown call");
}

void check(const fault &f, const std::string &text)
{
    if (f.kind == fault_kind::async &&
        (f.value == ncclSuccess || f.value == ncclInProgress || f.value >= ncclNumResults))
        bad(text, "the value is not an error number");
    if (f.kind == fault_kind::async && f.at != at::init && f.at != at::all_reduce)
        bad(text, "this call does not support async");
    if (f.kind == fault_kind::corrupt && f.at != at::all_reduce)
        bad(text, "this call has no result");
    if (f.at == at::id && f.rank != 0)
        bad(text, "ncclGetUniqueId has no rank: use rank 0");
}

fault parse(const std::string &text)
{
    std::vector<std::string> words;
    std::istringstream in(text);
    for (std::string word; std::getline(in, word, ':');)
        words.push_back(word);
    if (words.size() < 3 || words.size() > 4)
        bad(text, "expected three or four words");
    fault f;
    f.rank = (int)number(words[0], text);
    parse_call(words[1], text, &f);
    f.kind = find_kind(words[2], text);
    if (words.size() == 4)
        f.value = number(words[3], text);
    else if (f.kind == fault_kind::delay)
        bad(text, "delay requires a number of milliseconds");
    else if (f.kind == fault_kind::async)
        f.value = ncclRemoteError;
    check(f, text);
    return f;
}

/* For calls without a communicator, or that are not ended by ncclCommAbort. */
void sleep_ms(long ms)
{
    const timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, nullptr);
}

ncclResult_t failed(at at)
{
    return fail(ncclInternalError, "%s: %s fails", NAME, name_of(at));
}

} // namespace

std::vector<fault> parse_faults()
{
    std::vector<fault> faults;
    std::istringstream in(getenv(NAME) ? getenv(NAME) : "");
    for (std::string text; std::getline(in, text, ',');)
        faults.push_back(parse(text));
    return faults;
}

fault find_fault(const std::vector<fault> &faults, int rank, at at, long call, long bytes)
{
    for (const fault &f : faults)
        if (f.rank == rank && f.at == at && f.call == call && f.bytes == bytes)
            return f;
    return fault();
}

const char *name_of(at at)
{
    for (const place &p : places)
        if (p.at == at)
            return p.call;
    return "";
}

ncclResult_t misbehave(int rank, at at, long call)
{
    const fault f = find_fault(parse_faults(), rank, at, call);
    if (f.kind == fault_kind::delay)
        sleep_ms(f.value);
    while (f.kind == fault_kind::hang)
        sleep_ms(1000);
    return f.kind == fault_kind::fail ? failed(at) : ncclSuccess;
}

ncclResult_t misbehave(ncclComm *c, at at)
{
    long call;
    {
        std::lock_guard<std::mutex> lock(c->mutex);
        call = c->calls[at]++;
    }
    if (at == at::abort)
        return misbehave(c->rank, at, call);
    const fault f = find_fault(c->faults, c->rank, at, call);
    if ((f.kind == fault_kind::delay && !c->board.pause(f.value)) ||
        (f.kind == fault_kind::hang && !c->board.pause(-1)))
        return fail(ncclInternalError, "the communicator was aborted");
    if (f.kind != fault_kind::fail)
        return ncclSuccess;
    failed(at);
    set_error(c, ncclInternalError); /* with the text of ncclGetLastError */
    return ncclInternalError;
}

} // namespace nccl
} // namespace hostgpu
