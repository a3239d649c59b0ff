#!/usr/bin/env python3
"""Write the machines of test_placement as hwloc XML (version 2) into this folder.

They are based on published descriptions, not recorded: numbers of cores, NUMA nodes and PCI
addresses are as on such machines. Caches, names and sizes that placement does not use are omitted.
Run it again after changes.
"""
import os


class Topology:
    def __init__(self):
        self.lines = []
        self.index = 0

    def open(self, kind, cpus=None, nodes=None, close=False, **attributes):
        self.index += 1
        text = f'<object type="{kind}"'
        for name, value in attributes.items():
            text += f' {name}="{value}"'
        if cpus is not None:
            for name in ("cpuset", "complete_cpuset"):
                text += f' {name}="{bitmap(cpus)}"'
            for name in ("nodeset", "complete_nodeset"):
                text += f' {name}="{bitmap(nodes)}"'
            if kind == "Machine":
                text += f' allowed_cpuset="{bitmap(cpus)}" allowed_nodeset="{bitmap(nodes)}"'
        text += f' gp_index="{self.index}"'
        self.lines.append(text + ("/>" if close else ">"))

    def close(self):
        self.lines.append("</object>")

    def memory(self, node, cpus, subtype=None):
        more = {"subtype": subtype} if subtype else {}
        self.open("NUMANode", cpus, [node], True, os_index=node, local_memory=64 << 30, **more)

    def core(self, number, pus, nodes):
        self.open("Core", pus, nodes, os_index=number)
        for pu in pus:
            self.open("PU", [pu], nodes, True, os_index=pu)
        self.close()

    def host_bridge(self, domain, first, last):
        self.open("Bridge", bridge_type="0-1", depth=0, bridge_pci=f"{domain:04x}:[{first:02x}-{last:02x}]")

    def bridge(self, depth, busid, first, last):
        domain = busid.split(":")[0]
        self.open("Bridge", bridge_type="1-1", depth=depth, bridge_pci=f"{domain}:[{first:02x}-{last:02x}]",
                  pci_busid=busid, pci_type="0604 [1000:c030] [0000:0000] b0", pci_link_speed="31.507692")

    def device(self, busid, kind):
        self.open("PCIDev", close=True, pci_busid=busid, pci_type=kind, pci_link_speed="31.507692")

    def write(self, name):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".xml")
        with open(path, "w", encoding="ascii") as out:
            out.write('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
                      '<topology version="2.0">\n' + "\n".join(self.lines) + "\n</topology>\n")


def bitmap(bits):
    """Format a set as hwloc does: 32-bit words, the highest first."""
    words = [0] * (max(bits) // 32 + 1)
    for bit in bits:
        words[bit // 32] |= 1 << bit % 32
    return ",".join(f"0x{word:08x}" if word or i == len(words) - 1 else ""
                    for i, word in enumerate(reversed(words)))


H100 = "0302 [10de:2330] [10de:16c1] a1"
GH200 = "0302 [10de:2342] [10de:16eb] a1"
LAPTOP_GPU = "0300 [10de:28e0] [1043:16ed] a1"
NETWORK = "0207 [15b3:1021] [15b3:0041] 00"
DISK = "0108 [144d:a80a] [144d:a801] 00"


def gh200_node():
    """Four superchips: 72 Grace cores, their memory, and the GPU's memory, which is a NUMA node too.
    Its appearance depends on hwloc's version and the driver, so each variant occurs here: next to
    the cores' memory, with and without a subtype, and attached to the whole machine."""
    t = Topology()
    nodes = list(range(4)) + [4 + 8 * chip for chip in range(4)]
    t.open("Machine", list(range(288)), nodes, os_index=0)
    t.memory(nodes[6], list(range(288)))
    for chip in range(4):
        cores = list(range(72 * chip, 72 * chip + 72))
        own = [chip] if chip == 2 else [chip, 4 + 8 * chip]
        t.open("Package", cores, own, os_index=chip)
        t.memory(chip, cores)
        if chip != 2:
            t.memory(own[1], cores, "GPUMemory" if chip % 2 else None)
        for core in cores:
            t.core(core, [core], own)
        domain = 9 + 16 * chip  # 0009, 0019, 0029, 0039 in hexadecimal
        t.host_bridge(domain, 0, 1)
        t.bridge(1, f"{domain:04x}:00:00.0", 1, 1)
        t.device(f"{domain:04x}:01:00.0", GH200)
        t.close()
        t.close()
        t.close()
    t.close()
    t.write("gh200")


def h100_node():
    """Two packages of 56 cores with two threads each. Eight GPUs share PCIe switches with network
    cards."""
    t = Topology()
    gpus = ["1b", "43", "52", "61", "9d", "c3", "d1", "df"]
    t.open("Machine", list(range(224)), [0, 1], os_index=0)
    for package in range(2):
        cores = list(range(56 * package, 56 * package + 56))
        pus = cores + [112 + core for core in cores]
        t.open("Package", pus, [package], os_index=package)
        t.memory(package, pus)
        for core in cores:
            t.core(core % 56, [core, 112 + core], [package])
        for gpu in gpus[4 * package:4 * package + 4]:
            bus = int(gpu, 16)
            t.host_bridge(0, bus - 4, bus)
            t.bridge(1, f"0000:{bus - 4:02x}:01.0", bus - 3, bus)
            t.bridge(2, f"0000:{bus - 3:02x}:00.0", bus - 2, bus)
            for below, kind in ((bus - 1, NETWORK), (bus, H100)):
                t.bridge(3, f"0000:{bus - 2:02x}:{below - bus + 1:02x}.0", below, below)
                t.device(f"0000:{below:02x}:00.0", kind)
                t.close()
            for _ in range(3):
                t.close()
        t.close()
    t.close()
    t.write("h100")


def laptop():
    """Eight cores with two threads each, one GPU, one NUMA node; threads of a core have adjacent
    numbers."""
    t = Topology()
    pus = list(range(16))
    t.open("Machine", pus, [0], os_index=0)
    t.open("Package", pus, [0], os_index=0)
    t.memory(0, pus)
    for core in range(8):
        t.core(core, [2 * core, 2 * core + 1], [0])
    t.host_bridge(0, 0, 2)
    for bus, kind in ((1, LAPTOP_GPU), (2, DISK)):
        t.bridge(1, f"0000:00:{bus:02x}.1", bus, bus)
        t.device(f"0000:{bus:02x}:00.0", kind)
        t.close()
    t.close()
    t.close()
    t.close()
    t.write("laptop")


def two_packages(name, gpus, lost=()):
    """Two packages of eight cores. gpus: buses of the GPUs near each package; lost: buses of GPUs whose
    location the firmware does not report, which hwloc attaches to the whole machine."""
    t = Topology()
    t.open("Machine", list(range(16)), [0, 1], os_index=0)
    for package in range(2):
        cores = list(range(8 * package, 8 * package + 8))
        t.open("Package", cores, [package], os_index=package)
        t.memory(package, cores)
        for core in cores:
            t.core(core % 8, [core], [package])
        for bus in gpus[package]:
            t.host_bridge(0, bus - 1, bus)
            t.bridge(1, f"0000:{bus - 1:02x}:01.0", bus, bus)
            t.device(f"0000:{bus:02x}:00.0", H100)
            t.close()
            t.close()
        t.close()
    for bus in lost:
        t.host_bridge(0, bus - 1, bus)
        t.device(f"0000:{bus:02x}:00.0", H100)
        t.close()
    t.close()
    t.write(name)


gh200_node()
h100_node()
laptop()
two_packages("nopci", [[], []])  # a container or virtual machine that hides its PCI bus
two_packages("workstation", [[0x02], [0x01]], [0x04])  # GPU 0 is on the second package
