"""Helpers of the comparisons with PyTorch: running programs alternately, and reading their output.

Standard library only; Python 3.9.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REFERENCE = os.path.join(HERE, "../tests/reference")


def run_program(command, timeout, environment=None, cores=None):
    """Run the command to its end, on these cores if given. Returns standard output and the peak memory in MB.
    Raises RuntimeError with the end of standard error."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        try:
            child = subprocess.Popen(
                command, stdout=out, stderr=err, env={**os.environ, **(environment or {})},
                preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)
        except OSError as error:
            raise RuntimeError(f"cannot run {command[0]}: {error.strerror}") from error
        # wait4 instead of RUSAGE_CHILDREN: the usage of this child alone.
        deadline = time.monotonic() + timeout
        pid, timed_out = 0, False
        try:
            while pid == 0:
                pid, status, usage = os.wait4(child.pid, os.WNOHANG)
                if pid == 0:
                    if time.monotonic() > deadline:
                        child.kill()
                        timed_out = True
                    time.sleep(0.05)
        except KeyboardInterrupt:
            child.kill()
            raise
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode != 0:
            why = f"exceeded {timeout:.0f} s" if timed_out else f"exit code {child.returncode}"
            raise RuntimeError(f"{why}: {' '.join(command)}\n{err.read()[-2000:].rstrip()}")
        return out.read(), usage.ru_maxrss / 1024


def read_log(path):
    """Returns the events of a --log-json file."""
    with open(path) as f:
        return [json.loads(line) for line in f if line.strip()]


def steady_rate(events, batch, warmup, steps):
    """Returns images/s between the end of step `warmup` and the end of step `warmup + steps`."""
    done = {e["step"]: e["time"] for e in events if e.get("event") == "step" and "time" in e}
    if warmup not in done or warmup + steps not in done:
        raise RuntimeError(f"the log has no times of steps {warmup} and {warmup + steps}")
    return steps * batch / (done[warmup + steps] - done[warmup])


def processor():
    """Returns the processor's name, as reported by Linux, and the number of cores."""
    with open("/proc/cpuinfo") as f:
        names = [line.split(":", 1)[1].strip() for line in f if line.startswith(("model name", "CPU part"))]
    return f"{names[0] if names else os.uname().machine}, {len(os.sched_getaffinity(0))} cores"


def by_mpiexec(args, ranks, command):
    """Returns the command line that runs the command on `ranks` ranks with args.mpiexec and args.mpiexec_option,
    and the environment variables that it needs. The ranks share the cores of this process."""
    if ranks == 1:
        return command, {}
    return [args.mpiexec, "-n", str(ranks), *args.mpiexec_option, *command], {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def step_ms(events, warmup):
    """Returns the median time between the log entries of consecutive steps, without the first `warmup` ones."""
    times = {e["step"]: e["time"] for e in events if e.get("event") == "step"}
    return 1000 * statistics.median(times[s] - times[s - 1] for s in times
                                    if s > warmup and s - 1 in times)


def run_rounds(programs, rounds, report, keep_going=False):
    """Run each function of {name: function} once per round, rotating the order, and call
    report(round, name, result) after each. Returns {name: results} and {name: reason of failure}; a
    program that failed is not run again. A failure is raised unless keep_going is set."""
    results = {name: [] for name in programs}
    failed = {}
    order = list(programs)
    for number in range(1, rounds + 1):
        for name in order:
            if name in failed:
                continue
            try:
                result = programs[name]()
            except (RuntimeError, OSError, ValueError, LookupError) as error:
                if not keep_going:
                    raise
                failed[name] = f"{error}" if isinstance(error, RuntimeError) else repr(error)
                print(f"{name} failed: {failed[name]}", file=sys.stderr, flush=True)
                continue
            results[name].append(result)
            report(number, name, result)
        order = order[1:] + order[:1]
    return results, failed


def make_data(directory, python, train, test=128):
    """Write synthetic CIFAR-100 files with these numbers of samples."""
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import cifar100; "
            "cifar100.write_synthetic_dir(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))")
    run_program([python, "-B", "-c", code, REFERENCE, directory, str(train), str(test)], 600)


def find_starstep():
    for candidate in (os.environ.get("STARSTEP"), "./starstep", os.path.join(HERE, "../starstep")):
        if candidate and os.access(candidate, os.X_OK):
            return os.path.abspath(candidate)
    return shutil.which("starstep")


def write_json(path, what):
    with open(path, "w") as f:
        json.dump(what, f, indent=1)
        f.write("\n")
