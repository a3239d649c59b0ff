#!/usr/bin/env bash
# check_layers.sh TREE [BUILD]: checks the dependencies between modules, from the includes of the source tree and, given
# a build of it, from its objects. Prints a line for each violation, "RULE: what"; exit code 1 if there is one.
#
# modules   no include cycle between modules
# calls     no cycle between files of one module, by the functions that their objects call
# apps      nothing outside of src/apps includes or calls it: the library has no commands
# kernels   kernels include only kernels, src/core, hostgpu and libraries other than StarPU
# plan      src/graph names no layer type and no optimizer
# cuda      HAVE_CUDA occurs only in the files of the CUDA kernels and of NCCL
# product   code built for users includes no file of tests/
set -u
export LC_ALL=C
tree=$1
build=${2:-}

rule()
{
    sed "s/^/$1: /"
}

sources()
{
    (cd "$tree" && find "$@" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' |
        sort) 2>/dev/null
}

# Prints "FILE INCLUDED" for every include of a project file.
includes()
{
    sources src codelets graphs hostgpu tests | (cd "$tree" && xargs awk '
        FNR == 1 { there[FILENAME] = 1 }
        /^[ \t]*#[ \t]*include[ \t]*"/ { split($0, part, "\""); from[++n] = FILENAME; to[n] = part[2] }
        END {
            for (i = 1; i <= n; i++) {
                folder = from[i]
                sub("[^/]*$", "", folder)
                split(to[i] " src/" to[i] " " folder to[i], place, " ")
                for (k = 1; k <= 3; k++)
                    if (place[k] in there) {
                        print from[i], place[k]
                        break
                    }
            }
        }')
}

# Reads edges "A B" from stdin; prints a line for each cycle (strongly connected component).
cycles()
{
    awk '
        { node[$1]; node[$2]; reach[$1, $2] = 1 }
        END {
            for (k in node)
                for (i in node)
                    if ((i, k) in reach)
                        for (j in node)
                            if ((k, j) in reach)
                                reach[i, j] = 1
            for (i in node) {
                if (!((i, i) in reach) || i in told)
                    continue
                text = "cycle:"
                for (j in node)
                    if ((i, j) in reach && (j, i) in reach) {
                        text = text " " j
                        told[j]
                    }
                print text
            }
        }'
}

# Maps edges between files to edges between modules: src/apps/MODULE or src/MODULE, else the first folder.
modules()
{
    awk '
        function module(file, part) {
            split(file, part, "/")
            if (part[1] == "src" && part[2] == "apps" && part[4] != "")
                return "src/apps/" part[3]
            return part[1] == "src" && part[3] != "" ? part[1] "/" part[2] : part[1]
        }
        { a = module($1); b = module($2); if (a != b) print a, b }' | sort -u
}

# Prints the objects whose source is in the tree; an older build may have left others.
objects()
{
    local object file
    (cd "$build" && find src codelets graphs -name '*.o') | while read -r object; do
        file=${object%.o}
        file=$tree/${file/.libs\//}
        if [ -e "$file.c" ] || [ -e "$file.cu" ]; then
            echo "$build/$object"
        fi
    done
}

# Prints "CALLER CALLEE" for all files.
calls()
{
    objects | xargs nm -A -g -P | awk -v build="$build/" '
        {
            file = substr($1, length(build) + 1)
            sub(/\.o:?$/, "", file)
            sub(/\.libs\//, "", file)
            if ($3 == "U")
                used[file, $2]
            else
                home[$2] = file
        }
        END {
            for (u in used) {
                split(u, part, SUBSEP)
                callee = home[part[2]]
                if (callee != "" && callee != part[1])
                    print part[1], callee
            }
        }'
}

# Selects the edges within a folder.
within()
{
    awk '
        function folder(path) {
            sub("[^/]*$", "", path)
            return path
        }
        folder($1) == folder($2)'
}

# Prints "FILE WORD" for the words of identifiers and strings, comments excluded.
words()
{
    sources "$@" | (cd "$tree" && xargs awk '
        FNR == 1 { comment = 0 }
        {
            code = ""
            for (rest = $0; rest != ""; comment = !comment) {
                end = index(rest, comment ? "*/" : "/*")
                if (!comment)
                    code = code " " (end ? substr(rest, 1, end - 1) : rest)
                if (!end)
                    break
                rest = substr(rest, end + 2)
            }
            n = split(tolower(code), word, "[^a-z0-9]+")
            for (i = 1; i <= n; i++)
                if (word[i] != "" && !seen[FILENAME, word[i]]++)
                    print FILENAME, word[i]
        }')
}

# Prints the names of layers and optimizers, taken from their files; excludes words with other meanings.
kinds()
{
    (cd "$tree" && ls src/layers src/optim 2>/dev/null) | sed -n 's/\.c$//p' |
        grep -vxE 'activation|add|input|loss|optim|pool|schedule|shared|slice|list'
    printf '%s\n' conv bn relu gelu momentum
}

edges=$(mktemp) && called=$(mktemp) || exit 99
trap 'rm -f "$edges" "$called"' EXIT
includes >"$edges"
[ -z "$build" ] || calls >"$called"
faults=$(
    grep -v '^tests/' "$edges" | modules | cycles | rule modules
    within <"$called" | cycles | rule calls
    grep -hvE '^(src/apps|tests|bench)/' "$edges" "$called" | grep ' src/apps/' | rule apps
    {
        grep '^src/kernels/' "$edges" | grep -vE ' (src/kernels|src/core|hostgpu)/'
        (cd "$tree" && grep -rnE '#[ \t]*include[ \t]*<starpu' src/kernels)
    } | rule kernels
    words src/graph |
        awk 'NR == FNR { kind[$1]; next } $2 in kind { print $1 " names " $2 }' <(kinds) - | rule plan
    sources src codelets graphs hostgpu tests bench | grep -vE '^src/(kernels/cuda/|comm/nccl)' |
        (cd "$tree" && xargs grep -nw HAVE_CUDA) | rule cuda
    grep -v '^tests/' "$edges" | grep ' tests/' | rule product
)
[ -z "$faults" ] || ! echo "$faults"
