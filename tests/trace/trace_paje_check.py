"""Compare a file in the Paje format with trace.json: trace_paje_check.py PAJE JSON [DUMP]

Lines are split into fields by the format's rules. They must match their definitions, be in order of time, and refer
to defined objects. The resulting states, links, variables and events are compared with the events of the JSON file,
to the nanosecond. With DUMP, from `pj_dump -u -l 9 PAJE`, an independent reader's result is compared too. Prints
errors and exits with 1 if there are any.
"""
import json
import re
import sys
from decimal import Decimal

sys.dont_write_bytecode = True
from trace_format import expect, wrong  # noqa: E402


def ns(text, unit):
    return int(Decimal(text) * unit)


def compare(what, found, wanted, precision):
    """Compare rows; values of variables may differ by the relative precision, all else must be equal."""
    found, wanted = sorted(found), sorted(wanted)
    same = len(found) == len(wanted) and all(
        a[:-1] == b[:-1] and (a[-1] == b[-1] or isinstance(a[-1], float) and abs(a[-1] - b[-1]) <= precision * abs(b[-1]))
        for a, b in zip(found, wanted))
    expect(same, f"{what}: {len(found)}, in the JSON file {len(wanted)}; e.g.",
           sorted(set(map(str, found)) ^ set(map(str, wanted)))[:4])


def as_string(name):
    """Return the name as the format stores it: without quotes in strings; pj_dump rejects empty strings."""
    return name.replace('"', "'") or "?"


def by_json(path):
    with open(path) as f:
        events = json.loads(f.read(), parse_float=Decimal)["traceEvents"]
    ranks = {e["pid"]: as_string(e["args"]["name"]) for e in events if e["name"] == "process_name"}
    tracks = {e["tid"]: f"rank {e['pid']} {e['args']['name']}" for e in events if e["name"] == "thread_name"}
    slices = {(e["tid"], e["ts"]): e for e in events if e["ph"] == "X"}
    found = {"State": [], "Link": [], "Variable": [], "Event": []}
    last = {}
    for e in events:
        at = ns(e.get("ts", 0), 1000)
        if e["ph"] == "X":
            args = e["args"]
            bucket = args.get("bucket", -1)
            found["State"].append((tracks[e["tid"]], at, at + ns(e["dur"], 1000), as_string(e["name"]),
                                   args["step"], bucket, e["cat"]))
        elif e["ph"] == "C":
            for name, value in e["args"].items():
                found["Variable"].append((ranks[e["pid"]], f"{e['name']} {name}", at, float(value)))
        elif e["ph"] in "be":
            found["Event"].append((ranks[e["pid"]], "step " + {"b": "submitted", "e": "reported"}[e["ph"]], at, e["name"]))
        elif e["ph"] in "stf":
            here = slices[e["tid"], e["ts"]]
            if e["ph"] != "s":
                source = last[e["id"]]
                end = min(ns(source["ts"] + source["dur"], 1000), at)
                found["Link"].append((ranks[e["pid"]], end, at, e["name"], tracks[source["tid"]], tracks[here["tid"]]))
            last[e["id"]] = here
    return found


def split(line):
    """Return the fields of a line: quoted strings, or words."""
    fields = re.findall(r'"[^"]*"|[^\s"]+', line)
    expect("".join(fields).replace(" ", "") == line.replace(" ", ""), "quotes:", line)
    expect(all(f != '""' for f in fields), "an empty string:", line)
    return [f.strip('"') for f in fields]


def lines_of(path):
    """Yield each line as its kind and a dictionary of its fields."""
    kinds, kind, number = {}, None, 0
    with open(path) as f:
        for number, line in enumerate(f, 1):
            words = line.split()
            if line.startswith("%EventDef"):
                kind = kinds[words[2]] = (words[1], [])
            elif line.startswith("% "):
                kind[1].append(words[1])
            elif not line.startswith("%"):
                fields = split(line.rstrip("\n"))
                name, keys = kinds[fields[0]]
                if len(fields) != len(keys) + 1:
                    sys.exit(f"wrong: line {number} has {len(fields)} fields, {name} {len(keys) + 1}")
                yield name, dict(zip(keys, fields[1:]))


def by_paje(path):
    found = {"State": [], "Link": [], "Variable": [], "Event": []}
    types, values, containers, stacks, links, now = {"0": "0"}, {}, {"0": "0"}, {}, {}, None
    for name, f in lines_of(path):
        if name.startswith("PajeDefine"):
            expect(f["Type"] in types, "undefined parent type:", f)
            (values if name == "PajeDefineEntityValue" else types)[f["Alias"]] = f["Name"]
            continue
        at = ns(f["Time"], 10 ** 9)
        expect(now is None or now <= at, "time decreases:", f)
        now = at
        expect(f["Type"] in types and f.get("Container", "0") in containers, "undefined type or container:", f)
        where, kind = containers.get(f.get("Container")), types.get(f["Type"])
        if name == "PajeCreateContainer":
            expect(f["Alias"] not in containers and f["Name"] not in containers.values(), "duplicate container:", f)
            containers[f["Alias"]] = f["Name"]
        elif name == "PajePushState":
            expect(f["Value"] in values, "no such value:", f)
            stack = stacks.setdefault(f["Container"], [])
            expect(not stack, "nested state:", f)
            stack.append((at, values.get(f["Value"]), int(f["Step"]), int(f["Bucket"]), f["Kind"]))
        elif name == "PajePopState":
            if stacks.get(f["Container"]):
                begin, *rest = stacks[f["Container"]].pop()
                found["State"].append((where, begin, at, *rest))
            else:
                expect(False, "no state to end:", f)
        elif name == "PajeSetVariable":
            found["Variable"].append((where, kind, at, float(f["Value"])))
        elif name == "PajeNewEvent":
            found["Event"].append((where, kind, at, f["Value"]))
        elif name == "PajeStartLink":
            links[f["Key"]] = (where, at, f["Value"], containers.get(f["StartContainer"]))
        elif name == "PajeEndLink":
            where, begin, value, source = links.pop(f["Key"], (None,) * 4)
            expect(value == f["Value"], "ends of a link differ:", f)
            found["Link"].append((where, begin, at, value, source, containers.get(f["EndContainer"])))
        elif name == "PajeDestroyContainer":
            expect(not stacks.get(f["Name"]) and containers.pop(f["Name"], None), "container:", f)
    expect(list(containers) == ["0"] and not links, "left open:", containers, links)
    return found


def by_dump(path):
    found = {"State": [], "Link": [], "Variable": [], "Event": []}
    with open(path) as f:
        for line in f:
            kind, *fields = line.rstrip("\n").split(", ")
            if kind == "Container":
                continue
            begin = ns(fields[2], 10 ** 9)
            end = ns(fields[3], 10 ** 9) if kind != "Event" else begin
            if kind != "Event":
                expect(abs(ns(fields[4], 10 ** 9) - (end - begin)) <= 1, "duration:", line)
            if kind == "State":
                expect(Decimal(fields[5]) == 0, "nested state:", line)
                value, step, bucket, cat = fields[6:]
                found[kind].append((fields[0], begin, end, value, int(step), int(bucket), cat))
            elif kind == "Link":
                found[kind].append((fields[0], begin, end, *fields[5:8]))
            elif kind == "Variable":
                found[kind].append((*fields[:2], begin, float(fields[5])))
            else:
                found[kind].append((*fields[:2], begin, fields[3]))
    return found


def main():
    paje, chrome, dump = sys.argv[1], sys.argv[2], sys.argv[3:]
    wanted = by_json(chrome)
    # pj_dump stores values of variables as floats.
    for reader, found, precision in [("as written", by_paje(paje), 0)] + [("pj_dump", by_dump(d), 1e-6) for d in dump]:
        for kind, rows in found.items():
            compare(f"{reader}: {kind}", rows, wanted[kind], precision)
        print(f"{reader}:", ", ".join(f"{len(rows)} {kind}" for kind, rows in found.items()))
    sys.exit(len(wrong) > 0)


main()
