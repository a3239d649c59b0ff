"""Tests the mutations that sites.py finds in a C sample, and that it mutates only code."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import mutate
import sites

SAMPLE = '''#define LIMIT(x) ((x) + 1)
static int total = 3;
/* if (a < b) return 1; */
int f(int a, const char *text)
{
    char line[64];
    for (int i = 0; i < a && text[i]; i++)
        total += a * 2;
    if (a == 7 ||
        !strcmp(text, "a < b, 5"))
        lock(&line);
    else if (a > 0x10)
        total = 0.5;
    int copy = total;
    call(a,
         '5');
    while (a) {
        break;
    }
    return copy - a;
}
'''

EXPECTED = [
    (7, "compared", "for (int i = 0; i <= a && text[i]; i++)"),
    (7, "joined", "for (int i = 0; i < a || text[i]; i++)"),
    (7, "number", "for (int i = 1; i < a && text[i]; i++)"),
    (8, "counted", "total -= a * 2;"),
    (8, "counted", "total += a / 2;"),
    (8, "number", "total += a * 3;"),
    (8, "number", "total += a * 1;"),
    (8, "lost value", ";"),
    (9, "compared", "if (a != 7 ||"),
    (9, "joined", "if (a == 7 &&"),
    (9, "number", "if (a == 8 ||"),
    (9, "number", "if (a == 6 ||"),
    (9, "never checked", 'if (0 && (a == 7 ||\n!strcmp(text, "a < b, 5")))'),
    (9, "always true", 'if (1 || (a == 7 ||\n!strcmp(text, "a < b, 5")))'),
    (10, "joined", 'strcmp(text, "a < b, 5"))'),
    (11, "lost call", ";"),
    (12, "compared", "else if (a >= 0x10)"),
    (12, "number", "else if (a > 17)"),
    (12, "number", "else if (a > 15)"),
    (12, "never checked", "else if (0 && (a > 0x10))"),
    (12, "always true", "else if (1 || (a > 0x10))"),
    (13, "number", "total = 0.55;"),
    (13, "lost value", ";"),
    (15, "lost call", ";"),
    (18, "way", ";"),
    (20, "counted", "return copy + a;"),
    (20, "returned", "return 0;"),
]


def same(what, got, expected):
    if got != expected:
        for line in sorted(set(map(str, got)) ^ set(map(str, expected))):
            print("%s: %s" % ("not expected" if line in map(str, got) else "missing", line))
        sys.exit(what)


found = list(sites.sites("f.c", SAMPLE))
same("the faults of a function", sorted((s.first, s.kind, mutate.plain(s.after)) for s in found), sorted(EXPECTED))
for site in found:
    broken = sites.break_text(SAMPLE, site)
    assert broken != SAMPLE and broken.count("\n") == SAMPLE.count("\n"), site
try:
    sites.break_text(SAMPLE.replace("== 7", "== 8"), found[8])
    sys.exit("a file that has changed was mutated")
except ValueError:
    pass

same("a function's brace", [sites.function_start(SAMPLE, line) for line in (7, 20)], [5, 5])
same("the function of a line", [sites.function_of(SAMPLE, line) for line in (7, 20)], ["f", "f"])
split = SAMPLE.replace("int f(int a, const char *text)", "static enum status\nf_of(int a,\n     int (*b)(void))")
same("the function of a line, by a head of several lines", sites.function_of(split, 9), "f_of")

# The functions of GPU_ONLY exist.
for file, names in mutate.GPU_ONLY.items():
    text = open(os.path.join(mutate.TOP, file)).read()
    has = {sites.function_of(text, site.first) for site in sites.sites(file, text)}
    same("functions of " + file, sorted(set(names) - has), [])

# The same seed draws the same sites, another seed different ones, from every module.
modules = {"core": {("a.c", s.first): [s] for s in found}, "train": {("b.c", s.first): [s] for s in found}}
wanted, drawn = mutate.draw(modules, 5, 8)
same("two modules of the same size", wanted, {"core": 4, "train": 4})
same("the same seed", mutate.draw(modules, 5, 8)[1], drawn)
assert mutate.draw(modules, 6, 8)[1] != drawn
same("a module by its folder", [mutate.module_of(file) for file in ("src/data/pack.c", "codelets/op.c", "src/kernels/cpu/x.c", "src/apps/doctor/x.c")],
     ["data", "codelets", "kernels", "doctor"])
known = mutate.read_equivalent(os.path.join(os.path.dirname(os.path.abspath(__file__)), "equivalent.txt"))
print("%d faults, %d known as equivalent" % (len(found), len(known)))
