"""Mutation operators for C files: the faults that mutate.py draws from.

Each kind is a typical programming or merge error: an off-by-one bound, a changed comparison, a number off by 10 %, a
missing check, a lost call or assignment, an error returned as success. Only code inside functions is mutated; strings,
comments and macros are not."""

import collections
import re

# A mutation of the lines `first` to `last` (from 1) of a file: replaces `before` by `after`, which has as many lines.
# `kind` is the kind of fault.
Site = collections.namedtuple("Site", "file first last kind before after")

COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
JOINED = {"&&": "||", "||": "&&"}
COUNTED = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=",
           "<<": ">>", ">>": "<<", "&": "|", "|": "&"}
OPERAND = r"(?<=[\w)\]\"']) "
NUMBER = re.compile(r"(?<![\w.])(\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+|0x[0-9a-fA-F]+|\d+)(f|[uUlL]*)(?![\w.])")
STATEMENT_ENDS = re.compile(r"([;{}]|:|\belse|\bdo)\s*$")


def blank(text):
    """Replaces comments, quoted text and preprocessor lines by blanks; the length is unchanged."""
    out = list(text)
    for found in re.finditer(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*",
                             text, re.S | re.M):
        inner = range(found.start(), found.end())
        if text[found.start()] in "\"'":  # preserves the quotes, where an operand ends
            inner = inner[1:-1]
        for at in inner:
            if out[at] != "\n":
                out[at] = " "
    return "".join(out)


def bodies(lines):
    """Yields the numbers, from 0, of the lines inside functions, whose braces are in column one. Skips functions
    written in one line."""
    inside = False
    for number, line in enumerate(lines):
        if line.startswith("{"):
            inside = True
        elif line.startswith("}"):
            inside = False
        elif inside:
            yield number


def function_start(text, first):
    """Returns the line, from 1, of the opening brace of the function whose body contains the line `first`."""
    lines = blank(text).split("\n")
    return next((at for at in range(first - 1, 0, -1) if lines[at].startswith("{")), 0) + 1


def function_of(text, first):
    """Returns the name of the function whose body contains the line `first`."""
    lines = blank(text).split("\n")
    brace = function_start(text, first) - 1
    head = ""
    while brace > 0 and lines[brace - 1].strip() and not lines[brace - 1].rstrip().endswith((";", "}")):
        brace -= 1
        head = lines[brace] + " " + head
    found = re.search(r"(\w+)\(", head)
    return found.group(1) if found else ""


def closing(text, at):
    """Returns the position of the bracket that closes the one at `at`; None if there is none."""
    depth = 0
    for place in range(at, len(text)):
        depth += text[place] in "([{"
        depth -= text[place] in ")]}"
        if depth == 0:
            return place
    return None


def numbers(found):
    """Returns the mutations of a number: a float plus 10 %, an integer plus and minus 1, or 0 and 1 swapped."""
    digits, suffix = found.groups()
    if re.search(r"[.e]", digits) and not digits.startswith("0x"):
        value = float(digits)
        return ["%r%s" % (value * 1.1, suffix)] if value else ["1.0" + suffix]
    value = int(digits, 8 if re.match(r"0\d", digits) else 0)
    if value > 1:
        return ["%d%s" % (value + 1, suffix), "%d%s" % (value - 1, suffix)]
    return ["%d%s" % (1 - value, suffix)]


def begins_statement(lines, number):
    """Returns whether a statement begins in this line: after the end of another, or the head of an if or loop."""
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
    """Returns the first line, from 1, of the statement that contains the line `first`."""
    lines = blank(text).split("\n")
    for number in range(first - 1, max(-1, first - 13), -1):
        if begins_statement(lines, number):
            return number + 1
    return first


def statement(lines, number):
    """Returns (last line, text) of the statement that begins in line `number`, or None if it contains a block."""
    text = ""
    for last in range(number, min(number + 6, len(lines))):
        text += lines[last] + "\n"
        if "{" in lines[last] or "}" in lines[last]:
            return None
        if lines[last].rstrip().endswith(";"):
            return last, text
    return None


def sites_of_line(lines, blanked, number):
    """Yields (kind, column, length, replacement) within one line, and (kind, None, (last, text), replacement) for
    statements."""
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
            continue  # the size of a buffer, which is chosen with reserve
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
    """Returns (offset of the bracket, offset of the closing one, last line) of an if in this line, or None."""
    found = re.search(r"\bif \(", blanked[number])
    if not found:
        return None
    some = "\n".join(blanked[number:number + 12])
    end = closing(some, found.end() - 1)
    if end is None:
        return None
    return found.end() - 1, end, number + some[:end].count("\n")


def sites(file, text):
    """Yields all sites of a file, in the order of its lines."""
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
    """Returns the text of the file with this mutation."""
    lines = text.split("\n")
    if "\n".join(lines[site.first - 1:site.last]) != site.before:
        raise ValueError("%s:%d has changed" % (site.file, site.first))
    lines[site.first - 1:site.last] = site.after.split("\n")
    return "\n".join(lines)
