#!/bin/bash
# stage.sh: copies the data set to local storage of the node for the duration of the job. Started by the job scripts,
# once on each node.
#   stage.sh fill FOLDER JOB DATA PACKS PROGRAM...   copies PACKS, if there are any, to FOLDER/packs; otherwise packs
#                                                    DATA's images to it, or copies DATA's files to FOLDER/data
#   stage.sh hold FOLDER JOB FLAG                    waits for FLAG.end, then removes the files of fill; or waits for
#                                                    FLAG.keep and leaves them
# %n in FOLDER is replaced by the node's name. Incomplete copies have another name (part) and are never used as data.
if [ "${1:---help}" = --help ]; then
    echo "${0##*/} is started by the job scripts on each node; see 1gpu.sh --help" >&2
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

# A signal between mkdir and the next line leaves an empty folder. A symbolic link is never accepted.
made_by_this_job() {
    [ ! -L "$folder" ] && [ -O "$folder" ] && { [ "$(cat "$folder/job" 2>/dev/null)" = "$job" ] || [ -z "$(ls -A "$folder")" ]; }
}

# Remove the files of fill, nothing else.
remove() {
    made_by_this_job || return 0
    (cd "$folder" && rm -rf data packs part wanted content job) && rmdir --ignore-fail-on-non-empty -- "$folder"
}

make_folder() {
    local above=${folder%/*}
    [ -d "$above" ] || die "$above: no such folder; see LOCAL_DIR in the site's file"
    if [ -e "$folder" ] || [ -L "$folder" ]; then
        made_by_this_job || die "$folder: exists, but was not created by this job"
    else
        mkdir -m 700 -- "$folder" || die "$folder: cannot be created"
    fi
    echo "$job" >"$folder/job" || die "$folder: is not writable"
}

# ---- copying ------------------------------------------------------------------------------------------------

# content FOLDER FORMAT: print one line per file
content() {
    (cd "$1" && find -L . -type f "${@:3}" -printf "$2\n" | LC_ALL=C sort)
}

bytes_of() {
    find -L "$1" -type f "${@:2}" -printf '%s\n' 2>/dev/null | awk '{ sum += $1 } END { printf "%d", sum }'
}

# mb BYTES [SECONDS]: print MB, or MB/s
mb() {
    local tenths=$(($1 / 100000 / (${2:-1} > 0 ? ${2:-1} : 1)))
    printf '%d.%d' $((tenths / 10)) $((tenths % 10))
}

# working WHAT PART BYTES COMMAND...: run COMMAND in the background and print progress every 10 s; BYTES '': unknown
copier=''
working() {
    local what=$1 part=$2 bytes=$3 begin=$SECONDS next=10 now
    set -m # a separate process group, which can be killed as a whole
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
    die "stopped by a signal; incomplete copies are removed"
}

# copy_files FROM TO FIND...: preserves modification times
copy_files() {
    cd "$1" && find -L . -type f "${@:3}" -print0 | xargs -0 cp -Lp --parents -t "$2"
}

# copy FROM NAME FIND...: copy the files of FROM that match FIND... to FOLDER/NAME, unless they are already there.
copy() {
    local from=$1 name=$2 bytes room seconds=$SECONDS
    shift 2
    content "$from" '%P %s %T@' "$@" >"$folder/wanted" || die "$from: cannot be read"
    [ -s "$folder/wanted" ] || die "$from: contains no files"
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
        die "${folder%/*}: only $(mb "$room") MB of free space, but $from has $(mb "$bytes") MB"
    mkdir "$folder/part" || die "$folder/part: cannot be created"
    working "$from" "$folder/part" "$bytes" \
        copy_files "$from" "$folder/part" "$@" || die "$from: could not be copied to $folder"
    cmp -s <(content "$from" '%P %s' "$@") <(content "$folder/part" '%P %s') ||
        die "$folder/part: differs from $from, which may have changed during the copy"
    { mv -- "$folder/part" "$folder/$name" && mv -- "$folder/wanted" "$folder/content"; } ||
        die "$folder/$name: cannot be created"
    seconds=$((SECONDS - seconds))
    say "$(mb "$bytes") MB of $from in $seconds s, $(mb "$bytes" $seconds) MB/s"
}

# Pack the images on the node. The program reuses packs that are up to date, and checks the free space.
pack() {
    local data=$1
    shift
    rm -rf -- "$folder/data"
    say "no packs of $data (starstep data pack would create them once for all jobs); packing its images here"
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

# The ranks receive Slurm's SIGTERM as well and have 30 s by default (KillWait) to write a checkpoint. Mapped data
# remains readable after its file is removed.
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
