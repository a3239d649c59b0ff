"""Check the output of `starstep trace export`: trace_export_check.py DIR CHROME FIRST LAST [REPORT]

Checks the events against the trace event format; that all tasks recorded in DIR for the steps FIRST to LAST are
there with their times; arrows; and the overlap of communication and computation. The overlap is computed from the
files for Holistic Trace Analysis by its definition (kernels whose names begin with "nccl" are communication, all
others computation; time of both / time of communication, of merged intervals) and compared with that of the
recorded events, in whole nanoseconds. With REPORT, from `starstep trace report --json`, the busy shares of workers
are compared too. Prints errors and exits with 1 if there are any.
"""
import glob
import json
import os
import re
import sys
from decimal import Decimal

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import trace_format  # noqa: E402
from trace_format import expect, wrong  # noqa: E402


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
    """Return the rank's head, tasks, events of these steps and worker names; times on rank 0's clock."""
    head, tasks, clocks, marks, workers = None, {}, [], [], {}
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
            elif "worker" in value:
                workers[value["worker"]] = value["name"]
    expect(all(c["offset_ns"] == 0 for c in clocks), "ranks must share one clock")
    marks = [m for m in marks if m[0] == "m" or first <= m[1] <= last]
    return head, tasks, marks, workers


def check_format(trace):
    """Return the threads that have slices, and the flows by their ids."""
    for complaint in trace_format.complaints(trace):
        expect(False, complaint)
    events = trace["traceEvents"]
    flows = {}
    for e in events:
        if e["ph"] in "stf":
            flows.setdefault(e["id"], []).append(e)
    return {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}, flows


def check_flows(flows, events, tasks, expected):
    """Check arrows from a bucket's last backward task to its collective to its update, in order of time."""
    at = {}
    for e in events:
        if e["ph"] == "X":
            at[e["pid"], e["tid"], e["ts"]] = e
    for flow in flows.values():
        expect([e["ph"] for e in flow] == ["s", "t", "f"], "arrow:", flow)
        ends = [at.get((e["pid"], e["tid"], e["ts"])) for e in flow]
        if None in ends:
            expect(False, "no task at an arrow's end:", flow)
            continue
        expect([e["cat"] for e in ends] == ["backward", "all-reduce", "update"], "arrow between", ends)
        expect(len({(e["args"]["step"], e["args"]["bucket"], e["pid"]) for e in ends}) == 1, "arrow:", ends)
        expect(ends[0]["ts"] + ends[0]["dur"] <= ends[1]["ts"], "all-reduce before the backward task ended:", ends)
        expect(ends[1]["ts"] + ends[1]["dur"] <= ends[2]["ts"], "update before the all-reduce ended:", ends)
        last = max(e["ts"] for e in events if e["ph"] == "X" and e["cat"] == "backward"
                   and e["pid"] == ends[0]["pid"] and e["args"]["step"] == ends[0]["args"]["step"]
                   and e["args"].get("bucket") == ends[0]["args"]["bucket"])
        expect(last == ends[0]["ts"], "not the last backward task of the bucket:", ends[0])
    expect(len(flows) == expected, len(flows), "arrows instead of", expected)


def track_of(thread):
    """Return the track's name: overlapping slices are on threads with a number appended, as "collectives (2)"."""
    return re.sub(r" \([0-9]+\)$", "", thread)


def check_rank(directory, rank, events, first, last, base):
    """Check that every recorded event is exported with its times; return the number of arrows and the tasks."""
    head, tasks, marks, workers = read_marks(f"{directory}/rank-{rank:04}.jsonl", first, last)
    shift = head["epoch_ns"] - base
    sums = ("all-reduce", "reduce-metrics")
    collectives = {(m[1], m[2]) for m in marks if m[0] == "c"}
    wanted, compute, communication = [], [], []
    for m in marks:
        if m[0] == "t":
            kind = tasks[m[2]]["kind"]
            own = (m[1], tasks[m[2]]["bucket"]) if kind in sums else None
            if own not in collectives:
                wanted.append((m[1], tasks[m[2]]["name"], m[5] + shift, m[6] + shift, workers[m[3]]))
            if kind in ("convert", "forward", "backward", "check", "update", "scale"):
                compute.append((m[5], m[6]))
        elif m[0] == "c":
            name = [t["name"] for t in tasks.values() if t["kind"] in sums and t["bucket"] == m[2]][0]
            wanted.append((m[1], name, m[3] + shift, m[4] + shift, "collectives"))
            communication.append((m[3], m[4]))
    named = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name" and e["pid"] == rank}
    found = [(e["args"]["step"], e["name"], ns(e["ts"]), ns(e["ts"] + e["dur"]), track_of(named.get(e["tid"], "")))
             for e in events if e["ph"] == "X" and e["pid"] == rank]
    expect(sorted(wanted) == sorted(found), f"rank {rank}: {len(found)} events of {len(wanted)} recorded; e.g.",
           sorted(set(wanted) ^ set(found))[:3])
    expect(any(e["name"] == "process_name" and e["pid"] == rank for e in events), "process without a name")
    steps = {e["id2"]["local"] for e in events if e["ph"] == "b" and e["pid"] == rank}
    expect(steps == {str(s) for s in range(first, last + 1)}, "steps:", steps)
    if len(communication) > 0:
        check_hta(directory, rank, head, compute, communication)
    return sum(1 for c in collectives if c[1] >= 0), tasks


def check_busy(events, report):
    """Check that the counters of each step's window equal the report's shares, with 0 after the last."""
    for rank in report["ranks"]:
        found = {}
        for e in events:
            if e["ph"] == "C" and e["name"].startswith("busy ") and e["pid"] == rank["rank"]:
                found.setdefault(e["name"], []).append(float(e["args"]["percent"]))
        for k, worker in enumerate(rank["workers"]):
            shares = found.pop("busy " + worker["name"], None)
            wanted = [100 * step["workers_busy"][k] for step in rank["each_step"]]
            if not any(wanted):
                continue
            expect(shares and len(shares) == len(wanted) + 1 and shares[-1] == 0
                   and all(abs(a - b) < 0.006 for a, b in zip(shares, wanted)), "busy", worker, shares, wanted)
        expect(not found, "counters without a worker", list(found))


def check_steps(rank, events, kernels):
    """Check that each kernel has one launch, within its step's ProfilerStep."""
    steps = {int(e["name"].split("#")[1]): e for e in events if e["name"].startswith("ProfilerStep#")}
    launches = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime"}
    expect(set(steps) == {k["args"]["step"] for k in kernels}, f"rank {rank}: steps of kernels, of events:", list(steps))
    expect(len(launches) == len(kernels) == len({k["args"]["correlation"] for k in kernels}), f"rank {rank}: launches")
    for k in kernels:
        launch, step = launches[k["args"]["correlation"]], steps[k["args"]["step"]]
        expect(step["ts"] <= launch["ts"] < step["ts"] + step["dur"], "launched outside of its step:", k, launch, step)


def check_hta(directory, rank, head, compute, communication):
    with open(f"{directory}/hta/rank-{rank}.json") as f:
        text = f.read()
    trace = json.loads(text, parse_float=Decimal)
    check_format(trace)
    info = trace["distributedInfo"]
    expect(info["rank"] == rank and info["world_size"] == head["ranks"] and info["backend"] == head["backend"],
           "distributedInfo:", info)
    expect(f'"rank": {rank}' in text, "the rank is not where Holistic Trace Analysis reads it")
    kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    for e in kernels:
        expect(e["ph"] == "X" and type(e["args"]["stream"]) is int and e["args"]["stream"] > 0, "kernel:", e)
    check_steps(rank, trace["traceEvents"], kernels)
    nccl = [(ns(e["ts"]), ns(e["ts"] + e["dur"])) for e in kernels if e["name"].startswith("nccl")]
    rest = [(ns(e["ts"]), ns(e["ts"] + e["dur"])) for e in kernels if not e["name"].startswith("nccl")]
    both, all_of_it = overlap(rest, nccl)
    expect(all_of_it > 0 and (both, all_of_it) == overlap(compute, communication),
           f"rank {rank}: overlap {both} of {all_of_it} ns, recorded", overlap(compute, communication))
    print(f"rank {rank}: overlap {100 * both / max(all_of_it, 1):.2f} %, as recorded")


def main():
    directory, chrome, first, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    trace = trace_format.load(chrome)
    events = trace["traceEvents"]
    files = sorted(glob.glob(directory + "/rank-*.jsonl"))
    heads = []
    for path in files:
        with open(path) as f:
            heads.append(json.loads(f.readline()))
    info = trace["distributedInfo"]
    expect(info["rank"] == 0 and info["world_size"] == heads[0]["ranks"], "distributedInfo:", info)
    base = min(h["epoch_ns"] for h in heads)
    rows, flows = check_format(trace)
    for complaint in trace_format.numbers(events):
        expect(False, complaint)
    arrows, tasks = 0, None
    for head in heads:
        more, tasks = check_rank(directory, head["rank"], events, first, last, base)
        arrows += more
    check_flows(flows, events, tasks, arrows)
    expect(any(e["ph"] == "C" and "host bytes" in e["args"] for e in events), "no memory")
    if len(sys.argv) > 5:
        with open(sys.argv[5]) as f:
            check_busy(events, json.load(f))
    print(len(events), "events,", len(rows), "threads,", len(flows), "arrows,", len(wrong), "wrong")
    sys.exit(len(wrong) > 0)


main()
