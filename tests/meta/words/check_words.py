"""check_words.py ROOT [FILES]: fail where the text of the source tree ROOT uses a word of words.txt.

Text is every page and recorded output, the names of files, and of programs and scripts their comments and their strings
of several words: a string without a blank is a name. exceptions.txt lists where a word stays:
"path<TAB>regular expression of the line". It also fails if the tree has fewer than FILES files (500).
"""

import pathlib
import re
import sys

FOLDERS = ("src", "codelets", "graphs", "docs", "hostgpu", "slurm", "tests", "bench", "tools", "m4", ".ci")
FILES = ("README.md", "NEWS", "CONTRIBUTING.md", "quickstart", "configure.ac", "Makefile.am")
# Recorded: results of tests on GPUs, weights, other programs' output, and this list
SKIPPED = ("docs/gpu-results/", "tests/reference/", "tests/meta/words/", "m4/lib", "m4/lt")
STRING = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
C = re.compile(r"/\*.*?\*/|//[^\n]*|" + STRING, re.S)
SCRIPT = re.compile(r'""".*?"""|(?:^|(?<=\s))#[^\n]*|' + STRING, re.S)
M4 = re.compile(r"\bdnl[^\n]*|#[^\n]*|" + STRING)
TEXT = {suffix: C for suffix in (".c", ".h", ".cu", ".cuh", ".cpp", ".def", ".js", ".css")}
TEXT |= {suffix: SCRIPT for suffix in ("", ".sh", ".py", ".mk", ".bash", ".zsh", ".conf")}
TEXT |= {suffix: M4 for suffix in (".m4", ".ac")}
TEXT |= {suffix: None for suffix in (".md", ".1", ".html", ".txt", ".golden", ".tsv", ".rst")}


def read_table(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def text_files(root):
    for name in FILES:
        if (root / name).is_file():
            yield root / name
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and path.suffix in TEXT and not name.startswith(SKIPPED):
                yield path


def lines_of(path):
    """The file's text as (number of the line, text)."""
    text = path.read_text(encoding="utf-8", errors="replace")
    pattern = None if path.name == "NEWS" else TEXT.get(path.suffix, SCRIPT)
    if not pattern:
        yield from enumerate(text.splitlines(), 1)
        return
    for match in pattern.finditer(text):
        found = match.group()
        if found[0] in "\"'" and " " not in found:
            continue
        start = text.count("\n", 0, match.start()) + 1
        for offset, line in enumerate(found.split("\n")):
            yield start + offset, line


def main():
    root = pathlib.Path(sys.argv[1])
    here = root / "tests/meta/words"
    words = [(re.compile(rf"\b(?:{word})\b", re.I), better) for word, better in read_table(here / "words.txt")]
    allowed = [(path, re.compile(line)) for path, line in read_table(here / "exceptions.txt")]
    used = set()
    found = files = 0
    for path in text_files(root):
        files += 1
        name = path.relative_to(root).as_posix()
        for number, line in [(0, re.sub(r"[_.-]", " ", name)), *lines_of(path)]:
            for word, better in words:
                match = word.search(line)
                if not match:
                    continue
                exception = next((a for a in allowed if a[0] == name and a[1].search(line)), None)
                if exception:
                    used.add(exception)
                else:
                    found += 1
                    print(f'{name}:{number}: "{match.group()}": say {better}: {line.strip()[:160]}')
    for exception in allowed:
        if exception not in used:
            found += 1
            print(f"exceptions.txt: no text needs {exception[0]}: {exception[1].pattern}")
    print(f"{len(words)} words in {files} files: {found} found")
    return found > 0 or files < (int(sys.argv[2]) if len(sys.argv) > 2 else 500)


sys.exit(main())
