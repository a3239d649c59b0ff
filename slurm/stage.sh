#!/bin/bash
# stage.sh: the data set on storage of the node, for as long as the job runs. Started by the job scripts, once on each
# node.
#   stage.sh fill FOLDER JOB DATA PACKS PROGRAM...   FOLDER/packs from PACKS, if there are any, or of DATA's images;
#                                                    else DATA's files in FOLDER/data
#   stage.sh hold FOLDER JOB FLAG                    waits for FLAG.end, then removes what fill has made, or for
#                                                    FLAG.keep, and leaves it
# %n in FOLDER is the node's name. What is not yet whole has another name (part), and is never taken for the data.
if [ "${1:---help}" = --help ]; then
    echo "${0##*/} is what the job scripts start on each node; see 1gpu.sh --help" >&2
    exit 2
fi
set -u
node=${SLURMD_NODENAME:-$(hostname -s)}
task=$1 folder=${2//%n/$node} job=$3
shift 3

say() {
    printf '%s stage: %s: %s\n' "$(date '+%F %T')" "$node" "$*"
}

die() {
    printf 'starstep job: error: stage: %s: %s\n' "$node" "$*" >&2
    exit 1
}

# ---- the folder ---------------------------------------------------------------------------------------------

# An empty one is what a signal leaves between mkdir and the next line. A link leads to a folder of other things.
made_by_this_job() {
    [ ! -L "$folder" ] && [ -O "$folder" ] && { [ "$(cat "$folder/job" 2>/dev/null)" = "$job" ] || [ -z "$(ls -A "$folder")" ]; }
}

# Nothing but what fill has put there.
remove() {
    made_by_this_job || return 0
    (cd "$folder" && rm -rf data packs part wanted content job) && rmdir --ignore-fail-on-non-empty -- "$folder"
}

make_folder() {
    local above=${folder%/*}
    [ -d "$above" ] || die "$above: no such folder; see LOCAL_DIR in the site's file"
    if [ -e "$folder" ] || [ -L "$folder" ]; then
        made_by_this_job || die "$folder: is there, and not this job's"
    else
        mkdir -m 700 -- "$folder" || die "$folder: cannot be made"
    fi
    echo "$job" >"$folder/job" || die "$folder: cannot be written to"
}

# ---- copying ------------------------------------------------------------------------------------------------

# content FOLDER FORMAT: one line for each file
content() {
    (cd "$1" && find -L . -type f "${@:3}" -printf "$2\n" | LC_ALL=C sort)
}

bytes_of() {
    find -L "$1" -type f "${@:2}" -printf '%s\n' 2>/dev/null | awk '{ sum += $1 } END { printf "%d", sum }'
}

# mb BYTES [SECONDS]: megabytes, or megabytes a second
mb() {
    local tenths=$(($1 / 100000 / (${2:-1} > 0 ? ${2:-1} : 1)))
    printf '%d.%d' $((tenths / 10)) $((tenths % 10))
}

# working WHAT PART BYTES COMMAND...: in the background, with a line every 10 s; BYTES '': nobody knows how many
copier=''
working() {
    local what=$1 part=$2 bytes=$3 begin=$SECONDS next=10 now
    set -m # a process group of its own, to be ended as a whole
    "${@:4}" &
    copier=$!
    set +m
    while kill -0 "$copier" 2>/dev/null; do
        sleep 0.2
        if ((SECONDS - begin >= next)); then
            now=$(bytes_of "$part")
            say "$what: $(mb "$now")${bytes:+ of $(mb "$bytes")} MB, $(mb "$now" $((SECONDS - begin))) MB/s"
            next=$((next + 10))
        fi
    done
    wait "$copier"
}

on_signal() {
    trap '' TERM INT
    if [ -n "$copier" ]; then kill -- "-$copier" 2>/dev/null && wait "$copier"; fi
    rm -rf -- "$folder/part" "$folder/wanted"
    die "ended by a signal; what was half copied is removed"
}

# copy_files FROM TO FIND...: with their times
copy_files() {
    cd "$1" && find -L . -type f "${@:3}" -print0 | xargs -0 cp -Lp --parents -t "$2"
}

# copy FROM NAME FIND...: the files of FROM that find's words name become FOLDER/NAME, unless they are there already.
copy() {
    local from=$1 name=$2 bytes room seconds=$SECONDS
    shift 2
    content "$from" '%P %s %T@' "$@" >"$folder/wanted" || die "$from: cannot be read"
    [ -s "$folder/wanted" ] || die "$from: no file there"
    bytes=$(bytes_of "$from" "$@")
    if cmp -s "$folder/wanted" "$folder/content" &&
        cmp -s <(content "$from" '%P %s' "$@") <(content "$folder/$name" '%P %s' 2>/dev/null); then
        rm -f -- "$folder/wanted"
        say "$(mb "$bytes") MB of $from are here already"
        return
    fi
    rm -rf -- "$folder/data" "$folder/packs" "$folder/part" "$folder/content"
    room=$(df --output=avail -B1 "$folder" | tail -n 1)
    ((room >= bytes)) ||
        die "${folder%/*}: room for $(mb "$room") MB, and $from has $(mb "$bytes") MB"
    mkdir "$folder/part" || die "$folder/part: cannot be made"
    working "$from" "$folder/part" "$bytes" \
        copy_files "$from" "$folder/part" "$@" || die "$from: could not be copied to $folder"
    cmp -s <(content "$from" '%P %s' "$@") <(content "$folder/part" '%P %s') ||
        die "$folder/part: not what $from has; did it change?"
    { mv -- "$folder/part" "$folder/$name" && mv -- "$folder/wanted" "$folder/content"; } ||
        die "$folder/$name: cannot be made"
    seconds=$((SECONDS - seconds))
    say "$(mb "$bytes") MB of $from in $seconds s, $(mb "$bytes" $seconds) MB/s"
}

# Decoded once on the node; what fits is left as it is, and the program looks whether there is room.
pack() {
    local data=$1
    shift
    rm -rf -- "$folder/data"
    say "no packs of $data yet (starstep data pack would make them once for all jobs); its images are packed here"
    working "$data, packed" "$folder/packs" '' \
        "$@" data pack tinyimagenet --data-dir "$data" --cache "$folder/packs" || die "$data: could not be packed"
}

fill() {
    local data=$1 packs=$2
    shift 2
    [ -d "$data" ] || die "$data: no such folder"
    trap on_signal TERM INT
    make_folder
    if compgen -G "$packs/*.pack" >/dev/null; then
        copy "$packs" packs -maxdepth 1 -name '*.pack'
    elif [ -d "$data/train" ]; then
        pack "$data" "$@"
    else
        copy "$data" data
    fi
}

# Slurm's SIGTERM comes to the ranks as well, which have 30 s by default (KillWait) to leave a checkpoint; data that is
# mapped stays readable without a name.
hold() {
    local flag=$1 told=''
    trap 'told=${told:-$SECONDS}' TERM INT
    trap '' USR1 # scancel --signal=USR1 JOB: for the ranks
    until [ -e "$flag.end" ] || { [ -n "$told" ] && ((SECONDS - told >= 20)); }; do
        if [ -e "$flag.keep" ]; then exit 0; fi
        sleep 1
    done
    remove
}

case $task in
fill) fill "$@" ;;
hold) hold "$@" ;;
*) die "no such task: $task" ;;
esac
