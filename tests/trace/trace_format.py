"""Checks of the trace event format, as far as `starstep trace export` uses it: complaints(trace) of a parsed file.

trace_format.py FILE...: print the errors of files, exit with 1 if there are any.
trace_format.py --damage FILE: damage a valid file in each of many ways; exit with 1 if one is not detected.

Rules of the document "Trace Event Format": the object form needs "traceEvents"; events may be in any order; the
required fields of each phase; B/E and b/e pair up; flows (s, t, f) are bound by category, name and id, and their
ends lie within slices; counters have numbers. The format permits nested slices of a thread; this check does not.
"""
import copy
import json
import sys
from decimal import Decimal

METADATA = {"process_name": ("name", str), "process_labels": ("labels", str),
            "process_sort_index": ("sort_index", int), "thread_name": ("name", str),
            "thread_sort_index": ("sort_index", int)}
KNOWN = {"name", "cat", "ph", "ts", "dur", "pid", "tid", "id", "id2", "args", "bp"}


def is_number(x):
    return isinstance(x, (int, Decimal)) and not isinstance(x, bool) and (isinstance(x, int) or x.is_finite())


wrong = []  # arguments of failed expect() calls


def expect(holds, *what):
    if not holds:
        wrong.append(what)
        if len(wrong) <= 20:
            print("wrong:", *what)


class Checker:
    def __init__(self):
        self.wrong, self.rows, self.async_open, self.stacks = [], {}, {}, {}
        self.flows, self.counters = {}, {}

    def expect(self, holds, what, event):
        if not holds:
            self.wrong.append(f"{what}: {event}")
        return bool(holds)

    def fields(self, e):
        ok = self.expect(isinstance(e, dict), "not an object", e)
        if not ok:
            return False
        self.expect(not set(e) - KNOWN, "unknown fields", e)
        ok = self.expect(isinstance(e.get("name"), str) and e["name"], "name", e)
        ok &= self.expect(isinstance(e.get("ph"), str) and len(e["ph"]) == 1, "ph", e)
        ok &= self.expect(type(e.get("pid")) is int, "pid", e)
        if ok and e["ph"] != "M":
            ok &= self.expect(is_number(e.get("ts")) and e["ts"] >= 0, "ts", e)
            ok &= self.expect(type(e.get("tid")) is int, "tid", e)
        return ok and self.expect(isinstance(e.get("args", {}), dict), "args", e)

    def add(self, e):
        if not self.fields(e):
            return
        phase = {"M": self.metadata, "X": self.complete, "B": self.begin, "E": self.end, "C": self.counter,
                 "b": self.async_begin, "e": self.async_end, "s": self.flow, "t": self.flow, "f": self.flow}
        if self.expect(e["ph"] in phase, "unknown phase", e):
            phase[e["ph"]](e)

    def metadata(self, e):
        if e["name"] in METADATA:
            key, kind = METADATA[e["name"]]
            self.expect(type(e.get("args", {}).get(key)) is kind, "args of metadata", e)
            self.expect(e["name"].startswith("process") or type(e.get("tid")) is int, "tid", e)

    def complete(self, e):
        if self.expect(is_number(e.get("dur")) and e["dur"] >= 0, "dur", e):
            self.expect(isinstance(e.get("cat"), str) and e["cat"], "cat", e)
            self.rows.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))

    def begin(self, e):
        self.stacks.setdefault((e["pid"], e["tid"]), []).append(e)

    def end(self, e):
        stack = self.stacks.get((e["pid"], e["tid"]))
        if self.expect(stack, "E without B", e):
            self.expect(stack.pop()["ts"] <= e["ts"], "E before its B", e)

    def counter(self, e):
        args = e.get("args")
        self.expect(args and all(is_number(v) for v in args.values()), "args of a counter", e)
        times = self.counters.setdefault((e["pid"], e["name"]), set())
        self.expect(e["ts"] not in times, "counter twice at one time", e)
        times.add(e["ts"])

    def async_key(self, e):
        number = e.get("id", e.get("id2"))
        self.expect(isinstance(e.get("cat"), str) and e["cat"], "cat", e)
        if isinstance(number, dict):
            ok = len(number) == 1 and set(number) <= {"local", "global"}
            ok = ok and all(isinstance(v, str) for v in number.values())
            local = e["pid"] if "local" in number else None
            number = (local, *number.values())
        else:
            ok = isinstance(number, (str, int))
        return (e.get("cat"), number) if self.expect(ok, "id", e) else None

    def async_begin(self, e):
        key = self.async_key(e)
        if key:
            self.expect(key not in self.async_open, "b twice", e)
            self.async_open[key] = e

    def async_end(self, e):
        key = self.async_key(e)
        begun = self.async_open.pop(key, None) if key else None
        if self.expect(begun, "e without b", e):
            self.expect(begun["name"] == e["name"] and begun["ts"] <= e["ts"], "e of another b", e)

    def flow(self, e):
        if self.expect(isinstance(e.get("id"), (int, str)) and isinstance(e.get("cat"), str), "id or cat", e):
            self.expect(e.get("bp") in ((None, "e") if e["ph"] == "f" else (None,)), "bp", e)
            self.flows.setdefault((e["cat"], e["name"], e["id"]), []).append(e)

    def at_the_end(self):
        for row, slices in self.rows.items():
            slices.sort()
            for a, b in zip(slices, slices[1:]):
                self.expect(a[1] <= b[0], f"slices of thread {row} overlap", (a, b))
        for stack in self.stacks.values():
            for e in stack:
                self.expect(False, "B without E", e)
        for e in self.async_open.values():
            self.expect(False, "b without e", e)
        ids = {}
        for key, events in self.flows.items():
            self.expect(ids.setdefault((key[0], key[2]), key) == key, "one id for two flows", key)
            phases = "".join(e["ph"] for e in sorted(events, key=lambda e: (e["ts"], "stf".index(e["ph"]))))
            self.expect(phases[0] == "s" and phases[-1] == "f" and set(phases[1:-1]) <= {"t"}
                        and len(phases) > 1, f"flow {key}", phases)
            for e in events:
                self.expect(any(b <= e["ts"] <= end for b, end in self.rows.get((e["pid"], e["tid"]), [])),
                            "a flow's end is outside of all slices", e)


def complaints(trace):
    checker = Checker()
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["no list traceEvents"]
    checker.expect(trace.get("displayTimeUnit", "ms") in ("ms", "ns"), "displayTimeUnit", trace.get("displayTimeUnit"))
    for e in trace["traceEvents"]:
        checker.add(e)
    checker.at_the_end()
    return checker.wrong


def numbers(events):
    """Check thread numbers of a file of several processes for Perfetto. It takes thread 0 of a process, and a thread
    with a process's number, for the process itself; it then merges two threads and drops overlapping events."""
    pids, owners, wrong = {e["pid"] for e in events}, {}, []
    for e in events:
        tid = e.get("tid")
        if tid == 0 or tid in pids:
            wrong.append(f"thread number 0 or that of a process: {e}")
        elif tid is not None and owners.setdefault(tid, e["pid"]) != e["pid"]:
            wrong.append(f"duplicate thread number: {e}")
    return wrong


def load(path):
    with open(path) as f:
        return json.loads(f.read(), parse_float=Decimal)


# Phase, field and new value for an event of that phase; None drops the field.
DAMAGES = [(phase, field, None) for phase, fields in
           {"X": ("name", "ph", "ts", "dur", "pid", "tid", "cat"), "C": ("ts", "pid", "args"),
            "M": ("args",), "b": ("id2", "cat"), "s": ("id", "cat"), "f": ("tid",)}.items()
           for field in fields]
DAMAGES += [("X", "ts", -1), ("X", "ts", "1"), ("X", "dur", Decimal(10) ** 9), ("X", "ph", "B"), ("X", "ph", "E"),
            ("X", "ph", "?"), ("X", "colour", "red"), ("X", "args", []), ("X", "tid", "compute"),
            ("C", "args", {}), ("C", "args", {"bytes": "12"}), ("b", "ph", "e"), ("e", "ph", "b"),
            ("e", "name", "another"), ("e", "ts", 0), ("s", "ph", "t"), ("f", "ph", "t"), ("f", "id", 10 ** 6),
            ("f", "ts", Decimal(10) ** 12), ("s", "name", "another"), ("f", "bp", "x"),
            ("X", "tid", 0), ("C", "tid", 0), ("b", "tid", 0), ("M", "tid", 0), ("X", "tid", 1), ("X", "pid", 1)]


def unnoticed(trace):
    missed = []
    for phase, field, value in DAMAGES:
        damaged = copy.deepcopy(trace)
        of_phase = [e for e in damaged["traceEvents"] if e["ph"] == phase]
        e = next(e for e in of_phase if phase != "M" or e["name"] in METADATA)
        if value is None:
            del e[field]
        else:
            e[field] = value
        if not complaints(damaged) and not numbers(damaged["traceEvents"]):
            missed.append(f"{phase} with {field} = {value}")
    return missed


def main():
    if sys.argv[1] == "--damage":
        missed = unnoticed(load(sys.argv[2]))
        print(len(DAMAGES) - len(missed), "damages detected; missed:", ", ".join(missed) or "none")
        sys.exit(bool(missed))
    bad = 0
    for path in sys.argv[1:]:
        wrong = complaints(load(path))
        bad += len(wrong)
        for line in wrong[:10]:
            print(f"{path}: {line}")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
