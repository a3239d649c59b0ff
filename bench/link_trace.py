"""What slow_link needs of a trace (src/trace/format.h): when a rank computed and when it communicated.

Standard library only. Times in ms. Everything is taken from the begin of the first traced step's
computing to that of the last one's, so that each step's end is in it, and divided by the steps between.
"""

import json
import os
import statistics

COMPUTE = {"convert", "forward", "backward", "check", "update", "scale"}


class Rank:
    """One rank's file."""

    def __init__(self, directory, rank):
        self.tasks, self.buckets, self.marks, self.sums, self.epoch = {}, {}, [], [], 0
        with open(os.path.join(directory, f"rank-{rank:04d}.jsonl")) as f:
            for line in f:
                self.add(json.loads(line))
        compute = {index for index, t in self.tasks.items() if t["kind"] in COMPUTE}
        self.computing = [(step, task, begin, end) for step, task, begin, end in self.marks
                          if task in compute]
        self.synced = any(t["kind"] == "sync" for t in self.tasks.values())
        # Sums of BatchNorm's statistics: from -2 down, each its own
        self.sums += [(step, -2 - task, begin, end) for step, task, begin, end in self.marks
                      if self.tasks[task]["kind"] == "sync"]
        first = {}
        for step, _, begin, _ in self.computing:
            first[step] = min(begin, first.get(step, begin))
        if len(first) < 3:
            raise RuntimeError(f"{directory}: a trace of {len(first)} steps says nothing")
        self.begin, self.end, self.steps = first[min(first)], first[max(first)], len(first) - 1

    def add(self, line):
        if isinstance(line, dict):
            if "task" in line:
                self.tasks[line["task"]] = line
            elif "bucket" in line:
                self.buckets[line["bucket"]] = line
            elif "epoch_ns" in line:
                self.epoch = line["epoch_ns"]
            elif line.get("lost"):
                raise RuntimeError(f"the trace has lost {line['lost']} marks")
        elif line[0] == "t":
            _, step, task, _, _, begin, end = line
            self.marks.append((step, task, begin + self.epoch, end + self.epoch))
        elif line[0] == "c":
            _, step, bucket, begin, end = line
            self.sums.append((step, bucket, begin + self.epoch, end + self.epoch))

    def inside(self, spans):
        return merged((max(b, self.begin), min(e, self.end)) for b, e in spans)

    def per_step(self, spans):
        return length(spans) / self.steps / 1e6

    def durations(self):
        """{task: its median duration in ms} of the computing tasks, in order."""
        times = {}
        for _, task, begin, end in self.computing:
            times.setdefault(task, []).append((end - begin) / 1e6)
        return {task: statistics.median(times[task]) for task in sorted(times)}


def merged(spans):
    out = []
    for begin, end in sorted(s for s in spans if s[0] < s[1]):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(end, out[-1][1])
        else:
            out.append([begin, end])
    return out


def length(spans):
    return sum(end - begin for begin, end in spans)


def without(spans, others):
    """What of the merged spans is in none of the merged others."""
    out = []
    for begin, end in spans:
        for b, e in others:
            if e <= begin:
                continue
            if b >= end:
                break
            if b > begin:
                out.append([begin, b])
            begin = max(begin, e)
        if begin < end:
            out.append([begin, end])
    return out


def exposure(rank, peer):
    """Of one rank and step: step, compute, communication (a collective is under way, from where this
    rank entered it), exposed (of it, while no computing task runs), and of that the part spent before
    the other rank entered (late), by bucket (-1: metrics, -2:
    BatchNorm's statistics)."""
    compute = rank.inside((b, e) for _, _, b, e in rank.computing)
    entered = {(step, bucket): begin for step, bucket, begin, _ in peer.sums}
    late = rank.inside((b, min(e, entered.get((s, k), b))) for s, k, b, e in rank.sums)
    communication = rank.inside((b, e) for _, _, b, e in rank.sums)
    buckets = {}
    for bucket in sorted({max(k, -2) for _, k, _, _ in rank.sums}):
        spans = rank.inside((b, e) for _, k, b, e in rank.sums if max(k, -2) == bucket)
        buckets[bucket] = {"communication_ms": rank.per_step(spans),
                           "exposed_ms": rank.per_step(without(spans, compute))}
    exposed = without(communication, compute)
    return {"step_ms": (rank.end - rank.begin) / rank.steps / 1e6,
            "compute_ms": rank.per_step(compute), "communication_ms": rank.per_step(communication),
            "exposed_ms": rank.per_step(exposed),
            "exposed_late_ms": length(exposed) / rank.steps / 1e6
            - length(without(exposed, late)) / rank.steps / 1e6,
            "buckets": buckets}


def least_step(plan, durations, payload_bytes_per_s):
    """The least time of a step, by its dependencies: computing tasks of these durations in their order,
    collectives in the order of buckets, each when its gradients and the link are there, in the time that
    its bytes need on the link, both directions at once (2 ranks: each sends the whole bucket, half of it
    as its share of the reduce-scatter, half as its sum). The next step begins behind the last bucket's
    update, because that bucket has the first layer's parameters.

    Returns {compute, link, least, exposed}: exposed is what the first layer's dependency adds to the
    longer of compute and link; update: of the last bucket."""
    now, ready, update = 0.0, {}, {}
    for task, ms in durations.items():
        kind, bucket = plan.tasks[task]["kind"], plan.tasks[task]["bucket"]
        if kind == "update":
            update[bucket] = ms
            continue
        now += ms
        for space, index, mode in plan.tasks[task]["access"]:
            if kind == "backward" and space == "grads" and mode & 2:
                ready[index] = now
    done, link = 0.0, 0.0
    last = max(plan.buckets)
    for bucket in sorted(plan.buckets):
        took = plan.buckets[bucket]["wire_bytes"] / payload_bytes_per_s * 1e3
        link += took
        done = max(done, ready[bucket]) + took
    compute = now + sum(update.values())
    least = max(compute, done + update[last])
    return {"compute_ms": compute, "link_ms": link, "least_ms": least,
            "exposed_ms": least - max(compute, link), "last_sum_ms": took,
            "last_update_ms": update[last]}
