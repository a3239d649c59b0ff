"""Where a C file can be broken, and how: the deliberate faults that mutate.py draws from.

Each kind of fault is one that people make, or that a merge makes for them: a bound that is one off, a comparison
turned round, a number a tenth off, a check never made, a call or an assignment lost, an error reported as success.
Only what lies inside functions is broken; text, comments and macros are left alone."""

import collections
import re

# In the lines `first` to `last` (from 1) of a file: `before` becomes `after`, which has as many lines. `kind` is the
# fault's.
Site = collections.namedtuple("Site", "file first last kind before after")

COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
JOINED = {"&&": "||", "||": "&&"}
COUNTED = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=",
           "<<": ">>", ">>": "<<", "&": "|", "|": "&"}
OPERAND = r"(?<=[\w)\]\"']) "
NUMBER = re.compile(r"(?<![\w.])(\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+|0x[0-9a-fA-F]+|\d+)(f|[uUlL]*)(?![\w.])")
STATEMENT_ENDS = re.compile(r"([;{}]|:|\belse|\bdo)\s*$")


def blank(text):
    """The text with blanks for what is in comments, quotes and lines of the preprocessor; as long as before."""
    out = list(text)
    for found in re.finditer(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*",
                             text, re.S | re.M):
        inner = range(found.start(), found.end())
        if text[found.start()] in "\"'":  # the quotes stay: an operand is there
            inner = inner[1:-1]
        for at in inner:
            if out[at] != "\n":
                out[at] = " "
    return "".join(out)


def bodies(lines):
    """The numbers, from 0, of the lines inside functions: these begin and end with a brace alone in column one, or are
    written in one line behind the head."""
    inside = False
    for number, line in enumerate(lines):
        if line.startswith("{"):
            inside = True
        elif line.startswith("}"):
            inside = False
        elif inside:
            yield number


def function_start(text, first):
    """The line, from 1, of the brace that begins the function whose body has the line `first`."""
    lines = blank(text).split("\n")
    return next((at for at in range(first - 1, 0, -1) if lines[at].startswith("{")), 0) + 1


def function_of(text, first):
    """The name of that function."""
    lines = blank(text).split("\n")
    brace = function_start(text, first) - 1
    head = ""
    while brace > 0 and lines[brace - 1].strip() and not lines[brace - 1].rstrip().endswith((";", "}")):
        brace -= 1
        head = lines[brace] + " " + head
    found = re.search(r"(\w+)\(", head)
    return found.group(1) if found else ""


def closing(text, at):
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for place in range(at, len(text)):
        depth += text[place] in "([{"
        depth -= text[place] in ")]}"
        if depth == 0:
            return place
    return None


def numbers(found):
    """What a number may be by mistake."""
    digits, suffix = found.groups()
    if re.search(r"[.e]", digits) and not digits.startswith("0x"):
        value = float(digits)
        return ["%r%s" % (value * 1.1, suffix)] if value else ["1.0" + suffix]
    value = int(digits, 8 if re.match(r"0\d", digits) else 0)
    if value > 1:
        return ["%d%s" % (value + 1, suffix), "%d%s" % (value - 1, suffix)]
    return ["%d%s" % (1 - value, suffix)]


def begins_statement(lines, number):
    """Whether a statement begins in this line: what is before it has ended, or is the head of an if or a loop."""
    above = "\n".join(lines[max(0, number - 12):number]).rstrip()
    if not above.endswith(")"):
        return bool(STATEMENT_ENDS.search(above))
    depth = 0
    for at in range(len(above) - 1, -1, -1):
        depth += (above[at] == ")") - (above[at] == "(")
        if depth == 0:
            return bool(re.search(r"\b(if|for|while) $", above[:at]))
    return False


def statement_start(text, first):
    """The line, from 1, where the statement begins that the line `first` is a part of."""
    lines = blank(text).split("\n")
    for number in range(first - 1, max(-1, first - 13), -1):
        if begins_statement(lines, number):
            return number + 1
    return first


def statement(lines, number):
    """(the last line, the text) of the statement that begins in line `number`, or None if that has a block."""
    text = ""
    for last in range(number, min(number + 6, len(lines))):
        text += lines[last] + "\n"
        if "{" in lines[last] or "}" in lines[last]:
            return None
        if lines[last].rstrip().endswith(";"):
            return last, text
    return None


def sites_of_line(lines, blanked, number):
    """(kind, column, length, replacement) in one line, and (kind, None, (last, text), replacement) of statements."""
    line = blanked[number]
    for found in re.finditer(OPERAND + r"(<=|>=|==|!=|<|>) ", line):
        yield "compared", found.start(1), len(found.group(1)), COMPARED[found.group(1)]
    for found in re.finditer(r"(&&|\|\|)", line):
        yield "joined", found.start(1), 2, JOINED[found.group(1)]
    for found in re.finditer(OPERAND + r"(\+=|-=|\*=|/=|<<|>>|[-+*/%&|]) (?=[\w(\"'!~-])", line):
        yield "counted", found.start(1), len(found.group(1)), COUNTED[found.group(1)]
    for found in re.finditer(r"!(?=[\w(])", line):
        yield "joined", found.start(), 1, ""
    for found in NUMBER.finditer(line):
        if re.search(r"\bchar [^=;]*\[$", line[:found.start()]):
            continue  # a buffer's size, which is chosen with module
        for value in numbers(found):
            yield "number", found.start(), len(found.group(0)), value
    for found in re.finditer(r"\b(break|continue);", line):
        yield "way", found.start(), len(found.group(0)), ";"
    for found in re.finditer(r"\breturn ([^;]+);", line):
        value = found.group(1).strip()
        if value != "NULL":
            yield "returned", found.start(), len(found.group(0)), "return %d;" % (value in ("0", "SS_OK"))
    whole = begins_statement(blanked, number) and statement(blanked, number)
    if whole:
        text = whole[1].strip()
        if re.match(r"(case\b|default:|va_end\b)", text):
            return
        if re.match(r"(\(void\))?[A-Za-z_][\w.>\[\]-]*\(", text) and not re.match(r"(if|for|while|switch|return)\b", text):
            yield "lost call", None, whole, ";"
        elif re.match(r"[*(]*[A-Za-z_][^()=;]* [-+*/|&]?= ", text) and not re.match(
                r"(const |static |struct |enum |unsigned |char |int |long |float |double |size_t |u?int\d+_t |void )", text) \
                and not re.match(r"\w+ \**\w+ =", text):
            yield "lost value", None, whole, ";"
        elif re.match(r"(\+\+|--)?[A-Za-z_][\w.>\[\]-]*(\+\+|--)?;$", text) and re.search(r"\+\+|--", text):
            yield "lost value", None, whole, ";"


def checks(blanked, number):
    """Of an if that begins in this line: (last line, column of its bracket, line and column of the closing one)."""
    found = re.search(r"\bif \(", blanked[number])
    if not found:
        return None
    some = "\n".join(blanked[number:number + 12])
    end = closing(some, found.end() - 1)
    if end is None:
        return None
    return found.end() - 1, end, number + some[:end].count("\n")


def sites(file, text):
    """All sites of a file, in the order of its lines."""
    lines, blanked = text.split("\n"), blank(text).split("\n")
    for number in bodies(blanked):
        for kind, column, length, replacement in sites_of_line(lines, blanked, number):
            if column is None:
                last = length[0]
                before = "\n".join(lines[number:last + 1])
                indent = before[:len(before) - len(before.lstrip())]
                yield Site(file, number + 1, last + 1, kind, before, indent + ";" + "\n" * (last - number))
            else:
                line = lines[number]
                yield Site(file, number + 1, number + 1, kind, line, line[:column] + replacement + line[column + length:])
        check = checks(blanked, number)
        if check:
            begin, end, last = check
            before = "\n".join(lines[number:last + 1])
            for always in "0 && ", "1 || ":
                yield Site(file, number + 1, last + 1, "never checked" if always[0] == "0" else "always true", before,
                           before[:begin] + "(" + always + before[begin:end] + ")" + before[end:])


def break_text(text, site):
    """The file's text with this fault."""
    lines = text.split("\n")
    if "\n".join(lines[site.first - 1:site.last]) != site.before:
        raise ValueError("%s:%d is not what it was" % (site.file, site.first))
    lines[site.first - 1:site.last] = site.after.split("\n")
    return "\n".join(lines)
