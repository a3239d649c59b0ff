/* nccl_fault.cpp: faults on demand of the emulated NCCL: SS_HOSTGPU_NCCL_FAULT, see README.md. */
#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "tests/hostgpu/nccl_internal.h"

namespace hostgpu
{
namespace nccl
{

namespace
{

const char NAME[] = "SS_HOSTGPU_NCCL_FAULT";

[[noreturn]] void bad(const std::string &text, const char *why)
{
    die("%s: \"%s\": %s; RANK:CALL:KIND[:VALUE] is wanted, where CALL is a number or init and KIND "
        "is delay, fail, async, hang or corrupt",
        NAME, text.c_str(), why);
}

long number(const std::string &text, const std::string &all)
{
    char *end = nullptr;
    errno = 0;
    const long value = strtol(text.c_str(), &end, 10);
    if (errno || text.empty() || *end || value < 0)
        bad(all, "a number is none");
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
    bad(all, "an unknown kind");
}

fault parse(const std::string &text)
{
    std::vector<std::string> words;
    std::istringstream in(text);
    for (std::string word; std::getline(in, word, ':');)
        words.push_back(word);
    if (words.size() < 3 || words.size() > 4)
        bad(text, "not three or four words");
    fault f;
    f.rank = (int)number(words[0], text);
    f.call = words[1] == "init" ? AT_INIT : number(words[1], text);
    f.kind = find_kind(words[2], text);
    if (words.size() == 4)
        f.value = number(words[3], text);
    else if (f.kind == fault_kind::delay)
        bad(text, "a delay needs a number of milliseconds");
    else if (f.kind == fault_kind::async)
        f.value = ncclRemoteError;
    if (f.kind == fault_kind::async &&
        (f.value == ncclSuccess || f.value == ncclInProgress || f.value >= ncclNumResults))
        bad(text, "that is no error's number");
    if (f.kind == fault_kind::corrupt && f.call == AT_INIT)
        bad(text, "the start has no result");
    return f;
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

fault find_fault(const std::vector<fault> &faults, int rank, long call)
{
    for (const fault &f : faults)
        if (f.rank == rank && f.call == call)
            return f;
    return fault();
}

} // namespace nccl
} // namespace hostgpu
