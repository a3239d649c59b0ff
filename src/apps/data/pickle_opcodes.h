/* Opcodes supported by the pickle reader, named as in Python's pickletools.py. */
#ifndef SS_APPS_DATA_PICKLE_OPCODES_H
#define SS_APPS_DATA_PICKLE_OPCODES_H

/* clang-format off */
#define PICKLE_OPCODES(X) \
    X(MARK, '(') X(STOP, '.') X(POP, '0') X(POP_MARK, '1') X(DUP, '2') X(BINBYTES, 'B') \
    X(SHORT_BINBYTES, 'C') X(BINFLOAT, 'G') X(BININT, 'J') X(BININT1, 'K') X(BININT2, 'M') \
    X(NONE, 'N') X(REDUCE, 'R') X(BINSTRING, 'T') X(SHORT_BINSTRING, 'U') X(BINUNICODE, 'X') \
    X(EMPTY_LIST, ']') X(APPEND, 'a') X(BUILD, 'b') X(GLOBAL, 'c') X(APPENDS, 'e') \
    X(BINGET, 'h') X(LONG_BINGET, 'j') X(BINPUT, 'q') X(LONG_BINPUT, 'r') X(SETITEM, 's') \
    X(TUPLE, 't') X(SETITEMS, 'u') X(EMPTY_DICT, '}') X(EMPTY_TUPLE, ')') X(PROTO, 0x80) \
    X(TUPLE1, 0x85) X(TUPLE2, 0x86) X(TUPLE3, 0x87) X(NEWTRUE, 0x88) X(NEWFALSE, 0x89) \
    X(LONG1, 0x8A) X(SHORT_BINUNICODE, 0x8C) X(BINUNICODE8, 0x8D) X(BINBYTES8, 0x8E) \
    X(STACK_GLOBAL, 0x93) X(MEMOIZE, 0x94) X(FRAME, 0x95)
/* clang-format on */

enum pickle_opcode {
#define PICKLE_CODE(name, code) OP_##name = code,
    PICKLE_OPCODES(PICKLE_CODE)
#undef PICKLE_CODE
};

#endif
