"""Compare the page of `starstep trace export` with `starstep trace report --json`:
trace_page_numbers.py NUMBERS REPORT TRACE

NUMBERS is the output of trace_page_check.js: the summary and the tables of workers and buckets, for all ranks and
each rank, all steps and each step. Every number must equal the report's, rounded to the digits shown. TRACE is the
trace folder, for the ranks' clocks. Exits with 1 if a number differs.
"""
import json
import re
import sys

UNITS = {"s": 1e3, "ms": 1, "\u00b5s": 1e-3, "%": 0.01, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9,
         "MB/s": 1e-3, "GB/s": 1, "": 1}  # to ms, shares, bytes, GB/s
IDLE = ["input", "communication", "dependency", "runtime", "nothing"]
numbers = wrong = 0


def same(shown, wanted, *where):
    """Compare shown, such as "12.34 ms" or a dash, with the number wanted."""
    global numbers, wrong
    numbers += 1
    found = re.fullmatch(r"(-?\d+(?:\.(\d+))?)[ \u00a0]?(\S*)", shown)
    if found:
        unit = UNITS[found[3]]
        good = wanted is not None and abs(float(found[1]) * unit - wanted) <= 0.56 * unit * 10 ** -len(found[2] or "")
    else:
        good = shown == "\u2013" and not wanted
    if not good:
        wrong += 1
        if wrong <= 20:
            print("wrong:", *where, "shown", repr(shown), "report", wanted)


def mean_rows(ranks, step):
    """Return the mean of these ranks for each step, as dictionaries of ms."""
    rows = {}
    for rank in ranks:
        for s in rank["each_step"]:
            if step is None or s["step"] == step:
                rows.setdefault(s["step"], []).append(s)
    return [{"window": mean(x["window_ms"] for x in of), "compute": mean(x["compute_ms"] for x in of),
             "communication": mean(x["communication_ms"] for x in of),
             "exposed": mean(x["exposed_ms"] for x in of),
             "idle": [mean(list(x["idle_ms"].values())[k] for x in of) for k in range(len(IDLE))]}
            for of in rows.values()]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def check_summary(text, ranks, step):
    rows = mean_rows(ranks, step)
    total = {key: sum(r[key] for r in rows) for key in ("window", "compute", "communication", "exposed")}
    n, window, communication = len(rows), total["window"], total["communication"]
    wanted = [window / n, total["compute"] / window, communication / n,
              (communication - total["exposed"]) / communication if communication else None, total["exposed"] / n]
    wanted += [sum(r["idle"][k] for r in rows) / window for k in range(len(IDLE))]
    assert [name.split()[0] for name in ranks[0]["each_step"][0]["idle_ms"]] == IDLE, "order of idle times"
    shown = re.findall(r"\d+\.\d+[ \u00a0](?:%|ms|\u00b5s|s)|\u2013", text.split(": ", 1)[1])
    if len(shown) != len(wanted):
        same("", None, "summary", text)
    for s, w in zip(shown, wanted):
        same(s, w, "summary of step", step)
    if len(ranks) == 1 and step is None:
        for key, at in (("window_ms", 0), ("communication_ms", 2), ("exposed_ms", 4)):
            same(shown[at], ranks[0][key], "rank", ranks[0]["rank"], key)
        same(shown[3], ranks[0]["overlap"], "rank", ranks[0]["rank"], "overlap")


def check_workers(rows, ranks, step):
    shown = {row[0]: row[2:] for row in rows}
    names = [w["name"] for w in ranks[0]["workers"]]
    if set(shown) != set(names):
        same("", None, "workers", sorted(shown))
        return
    for k, name in enumerate(names):
        busy, window = [], []
        for rank in ranks:
            steps = [s for s in rank["each_step"] if step is None or s["step"] == step]
            busy.append(sum(s["workers_busy"][k] * s["window_ms"] for s in steps))
            window.append(sum(s["window_ms"] for s in steps))
        same(shown[name][0], sum(busy) / sum(window), name, "of step", step)
        if len(ranks) > 1:
            shares = [b / w for b, w in zip(busy, window)]
            same(shown[name][1].split(" (")[0], min(shares), name, "least")
            same(shown[name][2].split(" (")[0], max(shares), name, "most")
        elif step is None:
            same(shown[name][0], ranks[0]["workers"][k]["busy"], name)


def check_buckets(rows, buckets, every):
    if len(rows) != len(buckets):
        same("", None, len(rows), "buckets of", len(buckets))
    for row, b in zip(rows, buckets):
        def value(key, which, b=b):
            return b[key][which + "_ms"] if b.get(key) else None
        wanted = [b["bucket"], b.get("bytes"), b.get("wire_bytes")]
        wanted += [value(key, which) for key in ("ready_to_start", "duration") for which in ("mean", "median", "max")]
        wanted += [b.get("algorithm_gb_s"), b.get("bus_gb_s"), b["waiting_for_last_rank"]]
        wanted += [value("skew", which) for which in ("mean", "max")] if every else []
        if len(row) != len(wanted) or row[0] != str(wanted[0]):
            same("", None, "bucket", row)
        for s, w in list(zip(row, wanted))[1:]:
            same(s, w, "bucket", row[0])


def check_memory(text, ranks, epochs, first, last):
    """Check the largest sample taken during the slices or within 250 ms before or after."""
    def shown_there(at_ms, rank):
        at = 1e6 * at_ms + epochs[rank] - min(epochs.values())
        return first - 250e6 - 1 <= at <= last + 250e6 + 1
    most = max((m["host_bytes"] for r in ranks for m in r["memory"] if shown_there(m["at_ms"], r["rank"])), default=None)
    found = re.search(r"host (\S+ \S+?)( \(|[.,] )", text)
    same(found[1] if found else "\u2013", most, "memory", text)


def main():
    with open(sys.argv[1]) as f:
        page = json.load(f)
    with open(sys.argv[2]) as f:
        report = json.load(f)
    epochs = {}
    for rank in report["ranks"]:
        with open(f"{sys.argv[3]}/rank-{rank['rank']:04}.jsonl") as f:
            epochs[rank["rank"]] = json.loads(f.readline())["epoch_ns"]
    for told in page["told"]:
        ranks = [r for r in report["ranks"] if told["rank"] in (-1, r["rank"])]
        check_summary(told["summary"], ranks, told["step"])
        check_workers(told["workers"], ranks, told["step"])
        check_memory(told["most"], ranks, epochs, page["first"], page["last"])
        if told["buckets"] is not None:
            every = told["rank"] < 0
            check_buckets(told["buckets"], report["buckets"] if every else ranks[0]["buckets"], every)
    print(numbers, "numbers on the page,", wrong, "differ from the report")
    sys.exit(wrong > 0 or numbers == 0)


main()
