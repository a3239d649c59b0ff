"""Mutation testing: injects a fault into the code and checks whether a test fails.

    mutate.py [--seed N] [--count N] [--seconds S] [--module MODULE]... [--copies N] [--build DIR] [--folder DIR] [--list]

Draws --count mutations (sites.py defines the kinds) with --seed, from each module in proportion to its lines of code,
and tries them one by one in copies of the tree (copies.py), which are created by the first run and reused. For each
mutation, runs the tests that cover its lines until one fails: first unit tests, beginning with those of the module,
then scripts, the fastest first. Skips scripts that do not fit into --each seconds. Unit tests also detect memory leaks.
For survivors, repeats the unit tests with the address and undefined-behavior sanitizers, as in CI. The coverage of each
test is measured once, with gcov, in a separate copy. --seconds limits the total time; results up to then are reported.

Prints a table by module and the surviving mutations; exit code 0. Results are saved in the folder (SEED.json), and the
same command resumes there. Equivalent mutations are listed with a reason in equivalent.txt, or detected by an unchanged
object file.

Needs: a build in --build (default build), git, gcov, Check. Takes one to two minutes per mutation."""

import argparse
import collections
import fcntl
import hashlib
import json
import os
import random
import shutil
import sys
import threading
import time

import copies
import sites

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
# Modules whose tests are in another module's folder.
TESTED_IN = {"layers": ["graph"], "optim": ["runtime", "kernels"], "plot": ["plot", "monitor", "trace"], "scaling": ["monitor"],
             "codelets": ["runtime"], "graphs": ["graph"], "monitor": ["monitor"], "commands": ["cli"]}
# Excluded tests: they build, install or start jobs, and test no C code that other tests do not cover.
NEVER = ["tests/cli/test_quickstart.sh", "tests/cli/test_install.sh", "tests/slurm/", "tests/gpu/", "tests/hostgpu/", "tests/meta/mutate/",
         "tests/meta/layering/", "tests/meta/faults/test_sweep.sh", "tests/cli/test_docs.sh", "tests/cli/test_manual.sh"]
# Files, and functions of shared files, that only a GPU executes, real or emulated (--build build-hostgpu). Not drawn in
# a build without CUDA.
GPU_ONLY = {"codelets/lane.c": [], "codelets/segment.c": [], "src/apps/doctor/check_gpu.c": [],
            "src/runtime/nvtx.c": [], "src/runtime/timed_emulation.c": [], "src/runtime/replay.c": [], "src/train/gpu_options.c": [],
            "src/train/session_emulation.c": [],
            "codelets/hooks.h": ["ss_hooks_want_enqueue"],
            "codelets/input.c": ["enqueue_convert", "run_upload", "run_convert", "run_fetch",
                                 "ss_upload_submit", "ss_convert_submit", "ss_fetch_submit"],
            "codelets/scaler.c": ["enqueue_check", "enqueue_scale", "run_check", "run_scale", "ss_check_submit", "ss_scale_submit"],
            "codelets/task.c": ["ss_can_communicate", "ss_can_copy"],
            "src/runtime/input_stats.c": ["enqueue_begins", "enqueue_ends", "shorten_to_gap"],
            "src/runtime/runtime.c": ["place_driver", "start_lanes", "check_gpu", "start_gpu", "ss_runtime_place_gpu"],
            "src/runtime/placement_ranks.c": ["bind_communication"],
            "src/train/ranks.c": ["describe_gpu"],
            "src/train/session_buckets.c": ["ran"],
            "src/train/session_trace.c": ["ss_session_time_gpu"]}
# A variable that a mutation leaves unset must not contain a correct value by chance.
UNSET = "-ftrivial-auto-var-init=pattern"
OUTCOMES = ["unit", "script", "survived", "equivalent"]


def module_of(file):
    parts = file.split("/")
    if parts[:2] == ["src", "apps"] and len(parts) > 3:
        return parts[2]
    return parts[1] if parts[0] == "src" else parts[0]


def tests_of(module):
    return tuple("tests/%s/" % name for name in TESTED_IN.get(module, [module]))


def all_sites(copy, modules):
    """Returns {module: {(file, line): [sites]}} of the compiled files."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    read = copy.read_files()
    left_out = {} if copy.has_cuda() else GPU_ONLY
    for top in copies.MODULES:
        for at, _, names in sorted(os.walk(os.path.join(copy.source, top))):
            for name in sorted(names):
                file = os.path.relpath(os.path.join(at, name), copy.source)
                if file in read and (not modules or module_of(file) in modules):
                    functions = left_out.get(file)
                    if functions == []:
                        continue
                    text = copy.read(file)
                    for site in sites.sites(file, text):
                        if not functions or sites.function_of(text, site.first) not in functions:
                            found[module_of(file)][file, site.first].append(site)
    return found


def draw(found, seed, count):
    """Draws sites in the order in which they are tried: about `count`, and as many again to replace those that do not
    compile. Each module has a share in proportion to its lines, at least two. Draws a line, then a kind of fault, then
    one site of that kind. Returns ({module: number wanted}, {module: [sites]})."""
    dice = random.Random(seed)
    total = sum(len(lines) for lines in found.values())
    wanted, drawn = {}, {}
    for module, lines in sorted(found.items()):
        wanted[module] = min(max(2, round(count * len(lines) / total)), len(lines))
        some = dice.sample(sorted(lines), min(2 * wanted[module] + 4, len(lines)))
        drawn[module] = []
        for line in some:
            kind = dice.choice(sorted({site.kind for site in lines[line]}))
            drawn[module].append(dice.choice([site for site in lines[line] if site.kind == kind]))
    return wanted, drawn


def read_equivalent(path):
    """Returns the set of (file, before, after) in equivalent.txt: the file, "- " and "+ " lines, and the reason."""
    known, file, before, after = set(), None, [], []
    for line in open(path).read().splitlines() + [""]:
        if line.startswith("- "):
            before.append(line[2:].strip())
        elif line.startswith("+ "):
            after.append(line[2:].strip())
        elif not line.strip():
            if file:
                known.add((file, "\n".join(before), "\n".join(after)))
            file, before, after = None, [], []
        elif not file and not line.startswith("#"):
            file = line.strip()
    return known


def plain(text):
    return "\n".join(line.strip() for line in text.split("\n") if line.strip())


def key(site):
    return (site.file, plain(site.before), plain(site.after))


def digest(copy, file):
    return hashlib.sha256(copy.read(file).encode()).hexdigest()[:16]


def together(work, each):
    """Calls work(one) for all elements of `each` in parallel threads."""
    workers = [threading.Thread(target=work, args=(one,)) for one in each]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


class Coverage:
    """The lines that each test executes, and its run time, saved in a file. In a C file that has changed since, a test
    counts for all lines if it executed any."""

    def __init__(self, path):
        self.path = path
        self.tests = json.load(open(path)) if os.path.exists(path) else {}

    def measure(self, copy, others, names, tell):
        """Measures the tests in `copy`, which is built with --coverage, one in parallel for each copy of `others`. Runs
        unit tests in one of these, too, to check for leaks."""
        left = [name for name in names if name not in self.tests]
        lock, number = threading.Lock(), len(names) - len(left)

        def work(other):
            nonlocal number
            while True:
                with lock:
                    if not left:
                        return
                    name = left.pop(0)
                folder, log = (os.path.join(os.path.dirname(other.source), word) for word in ("counts", "counts.log"))
                shutil.rmtree(folder, ignore_errors=True)
                code, seconds = copy.test(name, 600, log=log, GCOV_PREFIX=folder)
                lines = {file: [digest(copy, file), some] for file, some in copy.covered(folder).items()}
                if code not in (0, 77):  # may be caused by the coverage build
                    code, seconds = other.test(name, 600)
                leaks = code == 0 and name in copy.unit and other.test(name, 60 + 5 * seconds, leaks=True)[0] == 0
                with lock:
                    number += 1
                    self.tests[name] = {"code": code, "seconds": seconds, "lines": lines, "leaks": leaks}
                    with open(self.path + ".new", "w") as out:
                        json.dump(self.tests, out)
                    os.replace(self.path + ".new", self.path)
                tell("%s: exit code %s, %.1f s (%d of %d)" % (name, code, seconds, number, len(names)))

        together(work, others)

    def runs(self, name, site, begin, now):
        """Returns whether a test executes a line of the mutation: from the line before `begin`, the start of its
        statement, where gcov may count it, to its last line. `now` is the digest of the site's file."""
        was, lines = self.tests[name]["lines"].get(site.file, ["", []])
        return was != now or any(begin - 1 <= line <= site.last for line in lines) if lines else False

    def runs_file(self, name, file):
        return bool(self.tests[name]["lines"].get(file))

    def nearest(self, site, begin, top):
        """Returns the first line to match: `begin`, or, if no line of the mutation is counted (merged by the compiler,
        or moved into the function of a parallel loop), the nearest counted line above it in the function that begins
        at `top`."""
        counted = {line for test in self.tests.values() for line in test["lines"].get(site.file, ["", []])[1]}
        if any(begin - 1 <= line <= site.last for line in counted):
            return begin
        return max((line for line in counted if top <= line < begin), default=begin)

    def seconds(self, name):
        return self.tests[name]["seconds"]

    def works(self, name):
        return self.tests.get(name, {"code": None})["code"] == 0


def tests_for(site, copy, coverage):
    """Returns the tests to run for a mutation, in order."""
    own = tests_of(module_of(site.file))
    header = site.file.endswith(".h")
    now = digest(copy, site.file)
    text = copy.read(site.file)
    begin = coverage.nearest(site, sites.statement_start(text, site.first), sites.function_start(text, site.first))
    works = [name for name in copy.unit + copy.scripts if coverage.works(name)]
    meets = {name for name in works if header or coverage.runs(name, site, begin, now)}
    if not meets:  # processes that exit immediately are not counted: take all tests that execute a line of the file
        meets = {name for name in works if coverage.runs_file(name, site.file)}
    chosen = []
    for names in copy.unit, copy.scripts:
        some = [name for name in names if name in meets or
                (name in works and names is copy.unit and name.startswith(own))]
        chosen += sorted(some, key=lambda name: (not name.startswith(own), coverage.seconds(name)))
    return chosen


def attempt(site, copy, sanitized, coverage, each):
    """Tries one mutation; returns (outcome, test or reason)."""
    text = sites.break_text(copy.read(site.file), site)
    object_before = copy.objects(site.file)
    chosen = tests_for(site, copy, coverage)
    with copy.broken(site.file, text):
        if not copy.make(300):
            return "does not compile", ""
        if copy.objects(site.file) == object_before:
            return "equivalent", "same object code"
        begin, missed = time.monotonic(), []
        for name in chosen:
            if name not in copy.unit and time.monotonic() - begin + coverage.seconds(name) > each:
                missed.append(name)
                continue
            code, _ = copy.test(name, 60 + 5 * coverage.seconds(name), coverage.tests[name]["leaks"])
            if code not in (0, 77):
                return "unit" if name in copy.unit else "script", name + (" (timeout)" if code is None else "")
    name = sanitized.attempt(site.file, text, chosen, coverage.seconds, each)
    if name:
        return "unit", name + " (sanitized)"
    return "survived", "%d tests not tried" % len(missed) if missed else ""


def report(tried, wanted):
    rows = collections.defaultdict(collections.Counter)
    for one in tried:
        rows[one["module"]][one["outcome"]] += 1
        rows["all"][one["outcome"]] += 1
    print("%-10s %6s %6s %6s %8s %10s %7s %6s" % ("module", "tried", "unit", "script", "survived", "equivalent", "caught", "unit"))
    for module in sorted(wanted) + ["all"]:
        row = rows[module]
        real = row["unit"] + row["script"] + row["survived"]
        share = ["%5.0f %%" % (100 * part / real) if real else "" for part in (row["unit"] + row["script"], row["unit"])]
        print("%-10s %6d %6d %6d %8d %10d %7s %6s" % (module, real + row["equivalent"], row["unit"], row["script"], row["survived"],
                                                      row["equivalent"], *share))
    for one in tried:
        if one["outcome"] == "survived":
            print("\n%s:%d %s%s" % (one["file"], one["first"], one["kind"], " (%s)" % one["why"] if one["why"] else ""))
            for sign, text in ("-", one["before"]), ("+", one["after"]):
                print("\n".join("%s %s" % (sign, line) for line in plain(text).split("\n")))


def main():
    options = argparse.ArgumentParser(description="Mutation testing: injects faults and checks whether a test fails.")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=80)
    options.add_argument("--seconds", type=float, default=1e9)
    options.add_argument("--each", type=float, default=240, help="time limit of the tests for one mutation, seconds")
    options.add_argument("--module", action="append", default=[])
    options.add_argument("--copies", type=int, default=2)
    options.add_argument("--build", default=os.path.join(TOP, "build"))
    options.add_argument("--folder", default=os.path.join(TOP, "build-mutate"))
    options.add_argument("--unit", action="store_true", help="run only unit tests")
    options.add_argument("--list", action="store_true", help="only print the mutations")
    options.add_argument("--again", action="store_true", help="retry the survivors")
    o = options.parse_args()
    end = time.monotonic() + o.seconds
    lock = threading.Lock()

    def tell(text):
        with lock:
            print(text, file=sys.stderr, flush=True)

    folder, build = os.path.abspath(o.folder), os.path.abspath(o.build)
    os.makedirs(folder, exist_ok=True)
    alone = open(os.path.join(folder, "lock"), "w")
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit("%s: another mutate.py runs in this folder; wait for it, or pass --folder" % folder)
    made = []
    for number in range(o.copies):
        made.append(copies.Copy(os.path.join(folder, "copy-%d" % number), TOP, build))
        made[-1].prepare(["CFLAGS=-g -O2 " + UNSET, "CXXFLAGS=-g -O2 " + UNSET])
        tell("%s is built" % made[-1].build)
    wanted, drawn = draw(all_sites(made[0], o.module), o.seed, o.count)
    if o.list:
        for module, some in drawn.items():
            for site in some[:wanted[module]]:
                print("%s:%d %s\n- %s\n+ %s" % (site.file, site.first, site.kind, plain(site.before), plain(site.after)))
        return
    coverage = Coverage(os.path.join(folder, "coverage.json"))
    names = [name for name in made[0].unit + made[0].scripts * (not o.unit) if not name.startswith(tuple(NEVER))]
    for copy in made:
        copy.unit, copy.scripts = ([name for name in some if name in names] for some in (copy.unit, copy.scripts))
        if o.unit:
            copy.scripts = []
    if any(name not in coverage.tests for name in names):
        counting = copies.Copy(os.path.join(folder, "counting"), TOP, build)
        counting.prepare(["CFLAGS=-O2 --coverage", "CXXFLAGS=-O2 --coverage", "LDFLAGS=--coverage"])
        coverage.measure(counting, made, names, tell)
    sanitized = copies.Sanitized(copies.Copy(os.path.join(folder, "sanitized"), TOP, build))
    sanitized.prepare(["CFLAGS=-g -O1 " + UNSET, "CXXFLAGS=-g -O1 " + UNSET])
    tell("%s is built" % sanitized.copy.build)

    equivalent = read_equivalent(os.path.join(HERE, "equivalent.txt"))
    kept = os.path.join(folder, "%d.json" % o.seed)
    tried = json.load(open(kept)) if os.path.exists(kept) else []
    if o.again:
        tried = [one for one in tried if one["outcome"] != "survived"]
    done = {(one["file"], one["first"], one["before"], one["after"]) for one in tried}
    left = {module: [site for site in some if (site.file, site.first, site.before, site.after) not in done]
            for module, some in drawn.items()}
    counted = collections.Counter(one["module"] for one in tried if one["outcome"] in OUTCOMES)

    def next_site():
        """Takes a site of the module with the lowest share of its wanted number; returns None at the end."""
        with lock:
            modules = [module for module in wanted if counted[module] < wanted[module] and left[module]]
            if not modules or time.monotonic() > end:
                return None
            module = min(modules, key=lambda name: ((counted[name] + 0.5) / wanted[name], name))
            counted[module] += 1
            return left[module].pop(0)

    def work(copy):
        while True:
            site = next_site()
            if not site:
                return
            begin = time.monotonic()
            if key(site) in equivalent:
                outcome, why = "equivalent", "listed"
            else:
                outcome, why = attempt(site, copy, sanitized, coverage, o.each)
            with lock:
                module = module_of(site.file)
                counted[module] -= outcome not in OUTCOMES
                tried.append(dict(site._asdict(), module=module, outcome=outcome, why=why, seconds=round(time.monotonic() - begin)))
                with open(kept + ".new", "w") as out:
                    json.dump(tried, out, indent=1)
                os.replace(kept + ".new", kept)
            tell("%s:%d %s: %s %s, %d s" % (site.file, site.first, site.kind, outcome, why, time.monotonic() - begin))

    together(work, made)
    report(tried, wanted)


if __name__ == "__main__":
    main()
