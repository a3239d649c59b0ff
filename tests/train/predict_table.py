"""Checks of prediction tables for test_predict.sh: predict_table.py TABLE COMMAND ARGUMENT..."""
import csv
import math
import os
import struct
import sys
import zlib


def expect(condition, *what):
    if not condition:
        sys.exit("wrong: " + " ".join(str(w) for w in what))


def read(path):
    with open(path, newline="") as f:
        rows = list(csv.reader(f))
    expect(all(len(row) == len(rows[0]) for row in rows), path, "rows of unequal length")
    return rows[0], rows[1:]


def right(table, correct, count, loss):
    """Check that names are CLASS/FILE and sorted, that the class of each row is the most probable one, and that the
    accuracy and the loss match those of eval."""
    head, rows = read(table)
    expect(head[:3] == ["file", "class", "probability"], head)
    names = [row[0] for row in rows]
    expect(names == sorted(names) and len(set(names)) == len(rows) == int(count), "names", names)
    for row in rows:
        p = [float(x) for x in row[3:]]
        expect(abs(sum(p) - 1) < 1e-4, "sum", row)
        expect(float(row[2]) == max(p) and head[3 + p.index(max(p))] == row[1], "most probable class", row)
    found = sum(row[1] == row[0].split("/")[0] for row in rows)
    expect(found == int(correct), found, "are correct, not", correct)
    own = -sum(math.log(float(row[head.index(row[0].split("/")[0])])) for row in rows) / len(rows)
    expect(abs(own - float(loss)) < 1e-4, "loss", own, "not", loss)


def top(table, k, other):
    (head, rows), (names, whole) = read(table), read(other)
    expect(head == ["file", "class", "probability", "class_2", "probability_2"], head)
    expect(len(rows) == len(whole), len(rows), "rows, not", len(whole))
    for row, all_of_it in zip(rows, whole):
        best = sorted(zip(all_of_it[3:], names[3:]), key=lambda x: -float(x[0]))[:int(k)]
        expect(row == [all_of_it[0]] + [x for p, name in best for x in (name, p)], row, best)


def same(table, other, bound):
    (head, rows), (other_head, other_rows) = read(table), read(other)
    expect(head == other_head and [r[0] for r in rows] == [r[0] for r in other_rows], "names")
    worst = max(abs(float(x) - float(y)) for r, s in zip(rows, other_rows) for x, y in zip(r[3:], s[3:]))
    expect(worst <= float(bound), "differs by", worst)


def names(table, *wanted):
    expect([row[0] for row in read(table)[1]] == list(wanted), read(table)[1])


def equal(table):
    rows = read(table)[1]
    expect(all(row[1:] == rows[0][1:] for row in rows), rows)


def numbered(table, other):
    (head, rows), (other_head, other_rows) = read(table), read(other)
    expect(head[3:] == [str(i) for i in range(len(head) - 3)], head)
    expect(len(rows) == len(other_rows), len(rows), "rows, not", len(other_rows))
    for row, s in zip(rows, other_rows):
        expect(row[2:] == s[2:] and other_head[3 + int(row[1])] == s[1], row, s)


def without(table, name, other):
    rows, other_rows = read(table)[1], read(other)[1]
    expect(len(rows) == len(other_rows), len(rows), "rows, not", len(other_rows))
    for row, s in zip(rows, other_rows):
        expect(row == (s if row[0] != name else [name] + [""] * (len(row) - 1)), row, s)
    expect(name in [row[0] for row in rows], name)


def png(records, folder, digits="1"):
    """Write each image of a CIFAR-100 binary file to FOLDER/LABEL/NUMBER.png, with `digits` digits in LABEL."""
    with open(records, "rb") as f:
        data = f.read()

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    for i in range(len(data) // 3074):
        label, planes = data[3074 * i + 1], data[3074 * i + 2:3074 * (i + 1)]
        lines = b"".join(b"\0" + bytes(planes[c * 1024 + y * 32 + x] for x in range(32) for c in range(3))
                         for y in range(32))
        os.makedirs(f"{folder}/{label:0{digits}}", exist_ok=True)
        with open(f"{folder}/{label:0{digits}}/{i:04}.png", "wb") as f:
            f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)) +
                    chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


{f.__name__: f for f in (right, top, same, names, equal, numbered, without, png)}[sys.argv[2]](sys.argv[1], *sys.argv[3:])
