"""Two network namespaces of this machine that act as two hosts, connected by a link of a given speed.

Standard library only; needs root, ip and tc (iproute2). Namespaces are named after the process that created
them, so that a later run removes only those that a killed run has left.
"""

import os
import re
import shlex
import signal
import subprocess
import time

PREFIX = "sslink"
PROGRAMS = [b"slow_link", b"comm_speed"]
ADDRESS = ["10.231.9.1", "10.231.9.2"]
SUBNET = "10.231.9.0/24"
# A packet of 1514 bytes has 1448 bytes of payload, after the headers of Ethernet, IPv4, and TCP with timestamps. tbf
# counts all bytes.
PAYLOAD = 1448 / 1514


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def why_not():
    """Returns a description of what is missing, or None."""
    if os.geteuid() != 0:
        return "needs root to create network namespaces"
    for tool in ("ip", "tc", "unshare", "taskset"):
        if not any(os.access(os.path.join(d, tool), os.X_OK) for d in os.environ["PATH"].split(":")):
            return f"needs the program {tool} (iproute2, util-linux)"
    return None


def remove(name):
    """Remove a namespace and kill all processes in it."""
    for _ in range(40):
        # Not call(), because the command fails if a process ends while it runs; it must then be repeated.
        inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
        for pid in inside.stdout.split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        if inside.returncode == 0 and not inside.stdout.split():
            break
        time.sleep(0.05)
    call("ip", "netns", "del", name)


def runs(pid):
    """Returns whether that process is one of these programs, not a later one with the same number."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read()
    except OSError:
        return False
    return any(program in words for program in PROGRAMS)


def namespaces():
    return [line.split()[0] for line in call("ip", "netns", "list").splitlines() if line]


def remove_leftovers():
    """Remove the namespaces of runs that were killed."""
    for name in namespaces():
        found = re.fullmatch(PREFIX + r"(\d+)[ab]", name)
        if found and not runs(int(found[1])):
            remove(name)


class Hosts:
    """with Hosts(scratch) as hosts: two names, hosts.name[0] and [1], and a link between them."""

    def __init__(self, scratch):
        self.name = [f"{PREFIX}{os.getpid()}{end}" for end in "ab"]
        self.interface = [f"{name}e"[-15:] for name in self.name]
        self.agent = os.path.join(scratch, "agent")

    def __enter__(self):
        remove_leftovers()
        try:
            self.make()
        except RuntimeError:
            self.__exit__()
            raise
        return self

    def make(self):
        for name in self.name:
            call("ip", "netns", "add", name)
        call("ip", "link", "add", self.interface[0], "netns", self.name[0], "type", "veth",
             "peer", "name", self.interface[1], "netns", self.name[1])
        for name, interface, address in zip(self.name, self.interface, ADDRESS):
            call("ip", "-n", name, "addr", "add", address + "/24", "dev", interface)
            call("ip", "-n", name, "link", "set", "lo", "up")
            call("ip", "-n", name, "link", "set", interface, "up")
        with open(self.agent, "w") as f:  # mpiexec runs it instead of ssh: HOST COMMAND
            f.write(f'#!/bin/sh\nshift\nexec ip netns exec {self.name[1]} unshare --uts '
                    f'sh -c "hostname {self.name[1]}; $*"\n')
        os.chmod(self.agent, 0o755)

    def __exit__(self, *unused):
        for name in set(self.name) & set(namespaces()):
            remove(name)

    def set_rate(self, mbit):
        for name, interface in zip(self.name, self.interface):
            call("tc", "-n", name, "qdisc", "replace", "dev", interface, "root", "tbf", "rate",
                 f"{mbit}mbit", "burst", "256kb", "latency", "50ms")

    def on(self, rank, command):
        """Returns the command line that runs the command on that host, under the host's name."""
        name = self.name[rank]
        return ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c",
                f'hostname {name}; exec "$@"', "sh"] + command

    def mpiexec(self, mpiexec, cores, command):
        """Returns the command line that runs the command with one rank per host, each on its own core."""
        options = {"plm_rsh_agent": self.agent, "btl": "tcp,self", "btl_tcp_if_include": SUBNET,
                   "oob_tcp_if_include": SUBNET, "rmaps_base_oversubscribe": "1",
                   "hwloc_base_binding_policy": "none",
                   "orte_tmpdir_base": os.path.dirname(self.agent)}
        words = [mpiexec, "--allow-run-as-root"]
        for option, value in options.items():
            words += ["--mca", option, value]
        words += ["-host", ",".join(a + ":1" for a in ADDRESS), "-n", "2", "sh", "-c",
                  f"[ $OMPI_COMM_WORLD_RANK = 0 ] && core={cores[0]} || core={cores[1]}; "
                  f"exec taskset -c $core {shlex.join(command)}"]
        return self.on(0, words)
