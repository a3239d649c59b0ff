"""Checks of what `starstep trace export` wrote: trace_export_check.py DIR CHROME FIRST LAST

The events against the trace event format; all tasks of the steps FIRST to LAST of DIR's marks, with
their times; arrows; and the overlap of communication and computation, computed from the files for
Holistic Trace Analysis by its definition (kernels whose names begin with "nccl" are communication,
all others computation; the time of both / the time of communication, of merged intervals), against
the same from the marks, in whole nanoseconds. Prints what is wrong and exits with 1.
"""
import glob
import json
import sys
from decimal import Decimal

wrong = 0


def expect(holds, *what):
    global wrong
    if not holds:
        wrong += 1
        if wrong <= 20:
            print("wrong:", *what)


def ns(us):
    value = us * 1000
    expect(value == int(value), "not whole nanoseconds:", us)
    return int(value)


def merge(intervals):
    out = []
    for begin, end in sorted(i for i in intervals if i[1] > i[0]):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def overlap(compute, communication):
    compute, communication = merge(compute), merge(communication)
    both = sum(max(0, min(e, f) - max(b, c)) for b, e in compute for c, f in communication)
    return both, sum(e - b for b, e in communication)


def read_marks(path, first, last):
    """The rank's head, tasks, and marks of these steps; times on rank 0's clock."""
    head, tasks, clocks, marks, buckets = None, {}, [], [], []
    with open(path) as f:
        for line in f:
            value = json.loads(line)
            if isinstance(value, list):
                marks.append(value)
            elif "trace" in value:
                head = value
            elif "task" in value:
                tasks[value["task"]] = value
            elif "clock" in value:
                clocks.append(value)
            elif "bucket" in value:
                buckets.append(value)
    expect(all(c["offset_ns"] == 0 for c in clocks), "a test of ranks with one clock")
    marks = [m for m in marks if m[0] == "m" or first <= m[1] <= last]
    return head, tasks, marks, buckets


def check_format(events):
    """Types, required keys, and what a viewer would not draw."""
    rows, flows, steps = {}, {}, {}
    for e in events:
        expect(isinstance(e.get("name"), str) and e.get("ph") in tuple("MXCstfbe"), "name or ph:", e)
        expect(type(e.get("pid")) is int, "pid:", e)
        if e["ph"] == "M":
            expect(isinstance(e.get("args"), dict), "metadata without args:", e)
            continue
        expect(isinstance(e.get("ts"), (int, Decimal)) and e["ts"] >= 0, "ts:", e)
        expect(type(e.get("tid")) is int, "tid:", e)
        if e["ph"] == "X":
            expect(isinstance(e.get("dur"), (int, Decimal)) and e["dur"] >= 0, "dur:", e)
            expect(isinstance(e.get("cat"), str) and isinstance(e.get("args"), dict), "cat or args:", e)
            rows.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
        elif e["ph"] in "stf":
            flows.setdefault(e["id"], []).append(e)
        elif e["ph"] in "be":
            steps.setdefault((e["pid"], e["id2"]["local"]), []).append(e)
        elif e["ph"] == "C":
            expect(all(type(v) is int and v >= 0 for v in e["args"].values()), "counter:", e)
    for row, slices in rows.items():
        slices.sort()
        for a, b in zip(slices, slices[1:]):
            expect(a[1] <= b[0], "slices of one thread overlap:", row, a, b)
    for key, pair in steps.items():
        expect([e["ph"] for e in pair] == ["b", "e"] and pair[0]["ts"] <= pair[1]["ts"], "step", key)
    return rows, flows


def check_flows(flows, events, tasks, expected):
    """From a bucket's last backward task to its collective to its update, in the order of time."""
    at = {}
    for e in events:
        if e["ph"] == "X":
            at[e["pid"], e["tid"], e["ts"]] = e
    for flow in flows.values():
        expect([e["ph"] for e in flow] == ["s", "t", "f"], "arrow:", flow)
        ends = [at.get((e["pid"], e["tid"], e["ts"])) for e in flow]
        if None in ends:
            expect(False, "an arrow's end is at no task:", flow)
            continue
        expect([e["cat"] for e in ends] == ["backward", "all-reduce", "update"], "arrow between", ends)
        expect(len({(e["args"]["step"], e["args"]["bucket"], e["pid"]) for e in ends}) == 1, "arrow:", ends)
        expect(ends[0]["ts"] + ends[0]["dur"] <= ends[1]["ts"], "summed before it was written:", ends)
        expect(ends[1]["ts"] + ends[1]["dur"] <= ends[2]["ts"], "applied before it was summed:", ends)
        last = max(e["ts"] for e in events if e["ph"] == "X" and e["cat"] == "backward"
                   and e["pid"] == ends[0]["pid"] and e["args"]["step"] == ends[0]["args"]["step"]
                   and e["args"].get("bucket") == ends[0]["args"]["bucket"])
        expect(last == ends[0]["ts"], "not the last backward task of the bucket:", ends[0])
    expect(len(flows) == expected, len(flows), "arrows instead of", expected)


def check_rank(directory, rank, events, first, last, base):
    """Every mark is an event with its times; returns how many arrows there must be."""
    head, tasks, marks, buckets = read_marks(f"{directory}/rank-{rank:04}.jsonl", first, last)
    shift = head["epoch_ns"] - base
    sums = ("all-reduce", "reduce-metrics")
    collectives = {(m[1], m[2]) for m in marks if m[0] == "c"}
    wanted, compute, communication = [], [], []
    for m in marks:
        if m[0] == "t":
            kind = tasks[m[2]]["kind"]
            own = (m[1], tasks[m[2]]["bucket"]) if kind in sums else None
            if own not in collectives:
                wanted.append((m[1], tasks[m[2]]["name"], m[5] + shift, m[6] + shift, m[3]))
            if kind in ("convert", "forward", "backward", "check", "update", "scale"):
                compute.append((m[5], m[6]))
        elif m[0] == "c":
            name = [t["name"] for t in tasks.values() if t["kind"] in sums and t["bucket"] == m[2]][0]
            wanted.append((m[1], name, m[3] + shift, m[4] + shift, 2000))
            communication.append((m[3], m[4]))
    found = [(e["args"]["step"], e["name"], ns(e["ts"]), ns(e["ts"] + e["dur"]), e["tid"] % 10000)
             for e in events if e["ph"] == "X" and e["pid"] == rank]
    expect(sorted(wanted) == sorted(found), f"rank {rank}: {len(found)} events of {len(wanted)} marks; e.g.",
           sorted(set(wanted) ^ set(found))[:3])
    named = {e["tid"] for e in events if e["name"] == "thread_name" and e["pid"] == rank}
    expect({e["tid"] for e in events if e["ph"] == "X" and e["pid"] == rank} <= named, "threads without a name")
    expect(any(e["name"] == "process_name" and e["pid"] == rank for e in events), "process without a name")
    steps = {e["id2"]["local"] for e in events if e["ph"] == "b" and e["pid"] == rank}
    expect(steps == {str(s) for s in range(first, last + 1)}, "steps:", steps)
    if len(communication) > 0:
        check_hta(directory, rank, head, compute, communication)
    return sum(1 for c in collectives if c[1] >= 0), tasks


def check_hta(directory, rank, head, compute, communication):
    with open(f"{directory}/hta/rank-{rank}.json") as f:
        text = f.read()
    trace = json.loads(text, parse_float=Decimal)
    info = trace["distributedInfo"]
    expect(info["rank"] == rank and info["world_size"] == head["ranks"] and info["backend"] == head["backend"],
           "distributedInfo:", info)
    expect(f'"rank": {rank}' in text, "the rank is not where Holistic Trace Analysis looks for it")
    kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    for e in kernels:
        expect(e["ph"] == "X" and type(e["args"]["stream"]) is int and e["args"]["stream"] > 0, "kernel:", e)
    nccl = [(ns(e["ts"]), ns(e["ts"] + e["dur"])) for e in kernels if e["name"].startswith("nccl")]
    rest = [(ns(e["ts"]), ns(e["ts"] + e["dur"])) for e in kernels if not e["name"].startswith("nccl")]
    both, all_of_it = overlap(rest, nccl)
    expect(all_of_it > 0 and (both, all_of_it) == overlap(compute, communication),
           f"rank {rank}: overlap {both} of {all_of_it} ns, by the marks", overlap(compute, communication))
    print(f"rank {rank}: overlap {100 * both / max(all_of_it, 1):.2f} %, as by the marks")


def main():
    directory, chrome, first, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with open(chrome) as f:
        trace = json.loads(f.read(), parse_float=Decimal)
    events = trace["traceEvents"]
    files = sorted(glob.glob(directory + "/rank-*.jsonl"))
    heads = []
    for path in files:
        with open(path) as f:
            heads.append(json.loads(f.readline()))
    info = trace["distributedInfo"]
    expect(info["rank"] == 0 and info["world_size"] == heads[0]["ranks"], "distributedInfo:", info)
    base = min(h["epoch_ns"] for h in heads)
    rows, flows = check_format(events)
    arrows, tasks = 0, None
    for head in heads:
        more, tasks = check_rank(directory, head["rank"], events, first, last, base)
        arrows += more
    check_flows(flows, events, tasks, arrows)
    expect(any(e["ph"] == "C" for e in events), "no memory")
    print(len(events), "events,", len(rows), "threads,", len(flows), "arrows,", wrong, "wrong")
    sys.exit(wrong > 0)


main()
