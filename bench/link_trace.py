"""Reads a trace (src/trace/format.h) for slow_link: the times of computation and communication of a rank.

Standard library only. Times are in ms. All times are measured from the start of computation in the first
traced step to that in the last one, so that the end of each step is included, and divided by the number of
steps in between.
"""

import json
import os
import statistics

COMPUTE = {"convert", "forward", "backward", "check", "update", "scale"}


class Rank:
    """The trace file of one rank."""

    def __init__(self, directory, rank):
        self.tasks, self.buckets, self.marks, self.sums, self.epoch = {}, {}, [], [], 0
        with open(os.path.join(directory, f"rank-{rank:04d}.jsonl")) as f:
            for line in f:
                self.add(json.loads(line))
        compute = {index for index, t in self.tasks.items() if t["kind"] in COMPUTE}
        self.computing = [(step, task, begin, end) for step, task, begin, end in self.marks
                          if task in compute]
        self.synced = any(t["kind"] == "sync" for t in self.tasks.values())
        # All-reduces of BatchNorm's statistics: separate numbers, from -2 down
        self.sums += [(step, -2 - task, begin, end) for step, task, begin, end in self.marks
                      if self.tasks[task]["kind"] == "sync"]
        first = {}
        for step, _, begin, _ in self.computing:
            first[step] = min(begin, first.get(step, begin))
        if len(first) < 3:
            raise RuntimeError(f"{directory}: the trace has only {len(first)} steps; at least 3 are needed")
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
                raise RuntimeError(f"the trace has lost {line['lost']} events")
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
        """Returns {task: median duration in ms} of the compute tasks, in order."""
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
    """Returns the merged spans minus the merged others."""
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
    """Returns times of a rank per step: step, compute, communication (a collective is in progress, from the
    time at which this rank entered it), exposed communication (while no compute task runs) and the part of
    it before the other rank entered (late); also by bucket (-1: metrics, -2: BatchNorm's statistics)."""
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
    """Compute the minimum time of a step from its dependencies: compute tasks of these durations in their
    order, and collectives in the order of buckets. A collective starts when its gradients and the link are
    available, and takes the time of its bytes on the link, with both directions used simultaneously (2 ranks:
    each sends the whole bucket, half of it in the reduce-scatter and half in the all-gather). The next step
    starts after the update of the last bucket, because that bucket contains the first layer's parameters.

    Returns {compute, link, least, exposed}: exposed is the time that the first layer's dependency adds to
    the longer of compute and link. Also returned: the all-reduce and the update of the last bucket."""
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
