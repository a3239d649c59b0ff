"""Fault injection in short runs of starstep: the Nth call of a kind made by starstep's own code fails, one per run
(tests/meta/faults/faults.c). A run must succeed, or exit with code 1 and one error line on stderr. It must not crash or
hang, and must not lose a complete file.

    sweep.py [--seconds S] [--seed N] [--first N] [--case CASE] [--kind KIND] [--at N]

Environment: STARSTEP, FAULTS_LIBRARY. Without --seconds, tries all of the first --first calls of each kind, which
takes hours; --seed determines their order. Exit code: 0 if no fault was handled incorrectly, 1 otherwise."""

import argparse
import collections
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

DEADLINE_S = 30
PROGRESS = re.compile(r"\w+: \d+ of \d+ files, \d+ files/s$")
NOT_REACHED = "not reached"
KINDS = ["open", "write", "short", "print", "sync", "rename", "mmap", "malloc", "thread", "clock"]
MODEL = ["--width", "2,2,2,2", "--batch-size", "8", "--seed", "1", "--threads", "1", "--workers", "1"]


def starstep(arguments, folder, **faults):
    environment = dict(os.environ, **faults)
    if faults:
        environment["LD_PRELOAD"] = os.environ["FAULTS_LIBRARY"]
    return subprocess.run([os.environ["STARSTEP"]] + arguments, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE_S, errors="replace")


def must(arguments, folder):
    done = starstep(arguments, folder)
    if done.returncode != 0:
        sys.exit("%s: %s" % (" ".join(arguments), done.stderr))


def train(*more):
    return ["train", "--data-dir", "data", "--checkpoint-dir", "run", "--log-json", "run/log", "--trace",
            "trace"] + MODEL + list(more)


def files_of(folder):
    return {os.path.relpath(os.path.join(at, name), folder): open(os.path.join(at, name), "rb").read()
            for at, _, names in os.walk(folder) for name in names if os.path.exists(os.path.join(at, name))}


class Case:
    """A command run in a folder with copies of the base folder's folders `begin`. It writes the folder `made`; `lost`
    checks for lost files instead of comparing with a run without faults."""

    def __init__(self, command, begin, made=None, lost=None):
        self.command, self.begin, self.made, self.lost = command, begin, made, lost
        self.whole = {}

    def prepare(self, base, folder):
        for name in self.begin:
            shutil.copytree(os.path.join(base, name), os.path.join(folder, name), symlinks=True)

    def check(self, folder, code):
        """Checks the files after a run; returns a description of the problem, or None."""
        if self.lost:
            return self.lost(folder, code)
        got = files_of(os.path.join(folder, self.made)) if self.made else {}
        for name, content in got.items():
            if name in self.whole and content != self.whole[name]:
                return "%s has wrong content" % name
        if code == 0 and set(got) != set(self.whole):
            return "succeeded without %s" % sorted(set(self.whole) ^ set(got))[:3]
        return None


def checkpoint_lost(folder, code):
    """Checks that the checkpoint `latest` can be evaluated."""
    if not os.path.lexists(os.path.join(folder, "run/latest")):
        return "succeeded without a checkpoint" if code == 0 else None
    done = starstep(["eval", "--data-dir", "data", "--init", "run", "--threads", "1"], folder)
    return done.stderr.strip()[:200] if done.returncode else None


def old_checkpoint_lost(folder, code):
    if not os.path.exists(os.path.join(folder, "run/latest/model.safetensors")):
        return "the previous checkpoint is lost"
    return checkpoint_lost(folder, code)


CASES = {
    "train": Case(train("--epochs", "1", "--max-steps", "2"), ["data"], lost=checkpoint_lost),
    "resume": Case(train("--epochs", "2", "--resume", "auto", "--best", "loss"), ["data", "run"],
                   lost=old_checkpoint_lost),
    "eval": Case(["eval", "--data-dir", "data", "--init", "run", "--threads", "1"], ["data", "run"]),
    "make": Case(["data", "make", "cifar100", "--out", "new", "--train", "16", "--test", "8"], [], "new"),
    "images": Case(["data", "make", "tinyimagenet", "--out", "new", "--train", "4", "--val", "2", "--classes", "2"], [],
                     "new"),
    "pack": Case(["data", "pack", "tinyimagenet", "--data-dir", "images", "--cache", "new"], ["images"], "new"),
    "export": Case(["trace", "export", "trace", "--chrome", "new.json", "--html", "new.html"], ["trace"]),
}


def make_base(base):
    must(["data", "make", "cifar100", "--out", "data", "--train", "16", "--test", "8"], base)
    must(["data", "make", "tinyimagenet", "--out", "images", "--train", "4", "--val", "2", "--classes", "2"], base)
    must(train("--epochs", "1"), base)


def count_calls(case, base):
    """Returns the number of calls of each kind in a run without faults."""
    with tempfile.TemporaryDirectory() as folder:
        case.prepare(base, folder)
        log = os.path.join(folder, "calls")
        done = starstep(case.command, folder, FAULT_LOG=log)
        if done.returncode != 0:
            sys.exit("%s: %s" % (" ".join(case.command), done.stderr))
        calls = collections.Counter(line.split()[1] for line in open(log, errors="replace"))
        if case.made:
            case.whole = files_of(os.path.join(folder, case.made))
    return calls


def complaint(done):
    """Checks exit code and stderr of a run; returns a description of the problem, or None."""
    lines = done.stderr.splitlines()
    errors = [line for line in lines if line.startswith("starstep: error: ")]
    others = [line for line in lines if not line.startswith("starstep: ") and not PROGRESS.match(line)]
    if done.returncode not in (0, 1):
        return "exit code %d: %s" % (done.returncode, " | ".join(lines)[:300])
    if others:
        return "exit code %d, unexpected line on stderr: %s" % (done.returncode, " | ".join(others)[:300])
    if len(errors) != done.returncode:
        return "exit code %d with %d error lines: %s" % (done.returncode, len(errors), " | ".join(lines)[:300])
    return None


def attempt(case, base, kind, at):
    """Runs a case with one fault; returns (outcome, problem or None, stderr)."""
    with tempfile.TemporaryDirectory() as folder:
        case.prepare(base, folder)
        faults = {"FAULT_CALL": kind, "FAULT_AT": str(at), "FAULT_LOG": os.path.join(base, "calls")}
        if os.path.exists(faults["FAULT_LOG"]):
            os.unlink(faults["FAULT_LOG"])
        try:
            done = starstep(case.command, folder, **faults)
            wrong = complaint(done) or case.check(folder, done.returncode)
            return ("refused" if done.returncode else "well"), wrong, done.stderr.strip()
        except subprocess.TimeoutExpired:
            return "hung", "timeout after %d s" % DEADLINE_S, ""


def where(base, at):
    """Returns the logged call that failed."""
    for line in open(os.path.join(base, "calls"), errors="replace"):
        if line.split()[0] == str(at):
            return " ".join(line.split()[2:])
    return NOT_REACHED


def main():
    options = argparse.ArgumentParser(description="Fault injection in short runs")
    options.add_argument("--seconds", type=float, default=1e9)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--first", type=int, default=300)
    options.add_argument("--case", choices=CASES)
    options.add_argument("--kind", choices=KINDS)
    options.add_argument("--at", type=int)
    o = options.parse_args()
    end = time.monotonic() + o.seconds
    table = collections.defaultdict(collections.Counter)
    bad = 0
    with tempfile.TemporaryDirectory() as base:
        make_base(base)
        places = []
        for name in [o.case] if o.case else CASES:
            calls = count_calls(CASES[name], base)
            if not calls:
                sys.exit("%s: no calls of starstep's own code were logged" % name)
            for kind in [o.kind] if o.kind else KINDS:
                numbers = [o.at] if o.at else list(range(1, min(calls[kind], o.first) + 1))
                random.Random("%d %s %s" % (o.seed, name, kind)).shuffle(numbers)
                places += [(turn, name, kind, at) for turn, at in enumerate(numbers)]
                table[name, kind]["calls"] = calls[kind]
        # Alternates between kinds and cases, so that a short run covers all of them.
        random.Random(o.seed).shuffle(places)
        for _, name, kind, at in sorted(places, key=lambda place: place[0]):
            if time.monotonic() > end:
                break
            ended, wrong, line = attempt(CASES[name], base, kind, at)
            # A run may succeed after these failures: a lock's heartbeat is not synced, or StarPU's folder is created
            # elsewhere. The number of heartbeats depends on time, so the call may not be reached.
            place = where(base, at)
            free = ".lock" in place or "/starstep-new-" in place or place == NOT_REACHED
            if not wrong and ended == "well" and kind in ("sync", "rename") and not free:
                wrong = "succeeded despite the fault"
            table[name, kind]["tried"] += 1
            table[name, kind]["bad" if wrong else ended] += 1
            if wrong:
                bad += 1
                print("BAD: --case %s --kind %s --at %d (%s): %s" % (name, kind, at, place, wrong), flush=True)
            elif o.at:
                print("%s: %s" % (ended, line))
    print("%-9s %-7s %7s %6s %6s %8s %5s" % ("case", "kind", "calls", "tried", "well", "refused", "bad"))
    for (name, kind), row in table.items():
        if row["tried"]:
            print("%-9s %-7s %7d %6d %6d %8d %5d" % (name, kind, row["calls"], row["tried"], row["well"], row["refused"],
                                                    row["bad"]))
    print("%d faults, %d bad" % (sum(row["tried"] for row in table.values()), bad))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
