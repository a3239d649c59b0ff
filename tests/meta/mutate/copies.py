"""A copy of the source tree with a separate build, for mutation testing: rebuilds after a file changes and runs single
tests as `make check` does."""

import contextlib
import filecmp
import glob
import hashlib
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import threading
import time

MODULES = "src/", "codelets/", "graphs/"  # folders of the product's code
LEAKS = subprocess.check_output(["gcc", "-print-file-name=liblsan.so"], text=True).strip()
MEMORY = 16 << 30  # address space limit of a mutated program, bytes
FILE = 1 << 30  # its file size limit, bytes
# Programs whose cases are run as separate tests, PROGRAM#CASE, one for each of these files.
CASES = {"tests/cli/test_transcripts": "tests/cli/transcripts/*.txt", "tests/meta/faults/test_faults": "tests/meta/faults/commands/*.txt"}


class Sanitized:
    """A copy built with the address and undefined-behavior sanitizers, as in CI, for mutations that survived."""

    def __init__(self, copy):
        self.copy, self.lock, self.passes = copy, threading.Lock(), {}

    def prepare(self, flags):
        self.copy.prepare(["--enable-sanitizers=address,undefined"] + flags)
        self.copy.memory = 0  # no limit: sanitizers map more than the physical memory
        self.copy.environment.update(ASAN_OPTIONS="abort_on_error=0", UBSAN_OPTIONS="halt_on_error=1")

    def attempt(self, file, text, names, seconds, most):
        """Returns the first unit test of `names` that fails with the mutated text of the file, or None. Runs as many
        tests as fit into `most` seconds."""
        with self.lock:
            chosen = []
            for name in names:
                if name not in self.copy.unit or 4 * seconds(name) > most:
                    continue
                most -= 4 * seconds(name)
                if name not in self.passes:
                    self.passes[name] = self.copy.test(name, 20 * seconds(name) + 60)
                if self.passes[name][0] == 0:
                    chosen.append(name)
            with self.copy.broken(file, text):
                for name in chosen if self.copy.make(600) else []:
                    if self.copy.test(name, 60 + 5 * self.passes[name][1])[0] not in (0, 77):
                        return name
            return None


def limits(memory):
    """Sets soft resource limits, because some tests set their own."""
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command, cwd, environment=None, log=None, seconds=3600, memory=None):
    """Runs a command with its output in the file `log`. Returns the exit code, or None after a timeout of `seconds`.
    Kills its remaining child processes."""
    with open(log or os.devnull, "wb") as out:
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, start_new_session=True,
                                   preexec_fn=None if memory is None else lambda: limits(memory))
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            # On SIGTERM a launcher terminates its ranks; SIGKILL ends the remaining processes.
            for number in signal.SIGTERM, signal.SIGKILL:
                try:
                    os.killpg(process.pid, number)
                    time.sleep(0.5 if process.poll() is None else 0)
                except ProcessLookupError:
                    break
            process.wait()


class Copy:
    def __init__(self, folder, top, build):
        """A copy of the working tree of `top`, configured like its build folder `build`."""
        self.source, self.build, self.top = os.path.join(folder, "source"), os.path.join(folder, "build"), top
        self.log = os.path.join(folder, "log")
        self.memory = MEMORY
        self.arguments = [a for a in shlex.split(subprocess.check_output(
            [os.path.join(build, "config.status"), "--config"], text=True)) if a != "--enable-werror"]

    def must(self, command, cwd, **more):
        if run(command, cwd, log=self.log, **more) != 0:
            text = open(self.log, errors="replace").read()
            raise SystemExit("%s: failed in %s\n%s" % (shlex.join(command), cwd, text[-3000:]))

    def prepare(self, flags):
        """Updates the copy from the original tree and builds it."""
        os.makedirs(self.source, exist_ok=True)
        os.makedirs(self.build, exist_ok=True)
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=self.top,
                                stdout=subprocess.PIPE, check=True)
        for name in listed.stdout.decode().split("\0"):
            self.bring(name)
        if not os.path.exists(os.path.join(self.build, "Makefile")):
            self.must(["autoreconf", "-fi"], self.source)
            self.must([os.path.join(self.source, "configure")] + self.arguments + ["--disable-static"] + flags, self.build)
        self.must(["make", "-j2", "check", "TESTS="], self.build)
        self.environment = self.ask("environment", "$(AM_TESTS_ENVIRONMENT) env -0", "\0")
        self.environment = dict(pair.split("=", 1) for pair in self.environment if "=" in pair)
        self.environment["top_builddir"] = self.build
        self.unit, self.scripts = (self.ask("names", "echo '$(%s)'" % name, None) for name in ("UNIT_TESTS", "TESTS"))
        self.scripts = [name for name in self.scripts if name not in self.unit]
        self.unit = [case for name in self.unit for case in self.cases(name)]

    def cases(self, name):
        if name not in CASES:
            return [name]
        files = glob.glob(os.path.join(self.source, CASES[name]))
        return ["%s#%s" % (name, os.path.basename(file)) for file in sorted(files)]

    def bring(self, name):
        """Copies a file of the tree if it differs, so that make rebuilds only what changed."""
        old, new = os.path.join(self.top, name), os.path.join(self.source, name)
        if os.path.isfile(old) and not (os.path.exists(new) and filecmp.cmp(old, new, shallow=False)):
            os.makedirs(os.path.dirname(new), exist_ok=True)
            shutil.copy(old, new)

    def ask(self, name, command, separator):
        """Returns the output of a command that uses the Makefile's variables, split at `separator`."""
        said = subprocess.check_output(["make", "-s", "--no-print-directory", "--eval", "%s: ; @%s" % (name, command), name],
                                       cwd=self.build, text=True)
        return said.split(separator)

    def objects(self, file):
        """Returns a hash of the object of a C file, or of the whole library for a header, without line information."""
        name = os.path.splitext(os.path.basename(file))[0]
        at = os.path.join(self.build, os.path.dirname(file), ".libs", name + ".o")
        if not file.endswith(".c") or not os.path.exists(at):
            at = os.path.join(self.build, ".libs", "libinside.so")
        plain = self.log + ".o"
        subprocess.run(["objcopy", "--strip-debug", "--remove-section=.note.gnu.build-id", at, plain], check=True)
        with open(plain, "rb") as made:
            return hashlib.sha256(made.read()).hexdigest()

    def has_cuda(self):
        with open(os.path.join(self.build, "config.h")) as config:
            return "#define HAVE_CUDA 1" in config.read()

    def read_files(self):
        """Returns the C files and headers that the libraries and the program depend on."""
        read = set()
        for top in MODULES:
            for at, _, names in os.walk(os.path.join(self.build, top)):
                for name in names:
                    if name.endswith((".Plo", ".Po")):
                        for word in open(os.path.join(at, name)).read().replace(":", " ").split():
                            path = os.path.relpath(os.path.join(self.build, word), self.source)
                            if path.startswith(MODULES) and path.endswith((".c", ".h", ".cu")):
                                read.add(path)
        return read

    def make(self, seconds):
        """Builds the libraries and the program, which the test programs load. Returns whether the build succeeded."""
        return run(["make", "libinside.la", "libstarstep.la", "starstep"], self.build, log=self.log, seconds=seconds) == 0

    def write(self, file, text):
        with open(os.path.join(self.source, file), "w") as out:
            out.write(text)

    def read(self, file):
        with open(os.path.join(self.source, file)) as text:
            return text.read()

    @contextlib.contextmanager
    def broken(self, file, text):
        """Context manager: replaces the text of a file and restores it."""
        whole = self.read(file)
        try:
            self.write(file, text)
            yield
        finally:
            self.write(file, whole)

    def test(self, name, seconds, leaks=False, log=None, **environment):
        """Runs one test, by its name in the lists; returns (exit code or None, seconds). With `leaks`, the test also
        fails on memory leaks."""
        name, _, case = name.partition("#")
        if case:
            environment["CK_RUN_CASE"] = case
        compiled = not name.endswith((".sh", ".py"))
        command = {".sh": ["bash"], ".py": [self.environment["PYTHON"]]}.get(os.path.splitext(name)[1], [])
        command = command + [("./" if compiled else os.path.join(self.environment["srcdir"], "")) + name]
        if leaks:
            environment.update(LD_PRELOAD=LEAKS, LSAN_OPTIONS="allocator_may_return_null=1:hard_rss_limit_mb=%d" % (MEMORY >> 20))
        begin = time.monotonic()
        # The leak sanitizer maps more than the physical memory.
        code = run(command, self.build, dict(self.environment, **environment), log or self.log, seconds, 0 if leaks else self.memory)
        return code, time.monotonic() - begin

    def covered(self, folder):
        """Returns {file: [lines executed]} of one test run with GCOV_PREFIX=folder in a build with --coverage."""
        counted, lines = [], {}
        for at, _, names in os.walk(folder):
            for name in names:
                if name.endswith(".gcda"):
                    made = os.path.join("/", os.path.relpath(os.path.join(at, name), folder))[:-len("gcda")] + "gcno"
                    if os.path.exists(made):
                        os.symlink(made, os.path.join(at, name)[:-len("gcda")] + "gcno")
                        counted.append(os.path.join(at, name))
        if not counted:
            return lines
        said = subprocess.run(["gcov", "--json-format", "--stdout"] + counted, cwd=folder, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout
        for line in said.splitlines():
            if not line.startswith("{"):
                continue
            for file in json.loads(line)["files"]:
                path = os.path.relpath(os.path.join(self.build, file["file"]), self.source)
                ran = {one["line_number"] for one in file["lines"] if one["count"]}
                if path.startswith(MODULES) and ran:
                    lines[path] = sorted(ran | set(lines.get(path, [])))
        shutil.rmtree(folder, ignore_errors=True)
        return lines
