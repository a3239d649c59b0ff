# bash completion of starstep, from tools/completion/ and the option tables (make manual)
_starstep_table()
{
    cat <<'END'
@TABLE@
END
}

# Print the longest command that is a prefix of the words, such as "data make cifar100"
_starstep_command()
{
    local name rest words=" $* " longest=
    while IFS=$'\t' read -r name rest; do
        [[ $words == " $name "* && ${#name} -gt ${#longest} ]] && longest=$name
    done < <(_starstep_table)
    echo "$longest"
}

_starstep()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} typed command
    local name option values prefix kind kinds words=()
    typed=("${COMP_WORDS[@]:1:COMP_CWORD - 1}")
    case ${typed[0]-} in
    help) typed=("${typed[@]:1}") ;;
    launch | tune) # complete the command that it starts
        local i
        for i in "${!typed[@]}"; do
            [[ $i -gt 0 && ${typed[i]} =~ ^(train|eval|predict|info|doctor)$ ]] && typed=("${typed[@]:i}") && break
            [[ ${typed[i]} == -- && ${typed[0]} == tune ]] && typed=(train "${typed[@]:i + 1}") && break
        done
        ;;
    esac
    command=$(_starstep_command "${typed[@]}")
    COMPREPLY=()
    [[ -z $command && ${#typed[@]} -gt 0 ]] && return
    if [[ $before == = ]]; then # bash splits --name=value
        before=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $word == = ]]; then
        word=
    fi
    prefix=${command:+$command }
    while IFS=$'\t' read -r name option values _; do
        if [[ $option == - ]]; then
            [[ $name == "$prefix"?* ]] && name=${name#"$prefix"} && words+=("${name%% *}")
        elif [[ $name == "$command" ]]; then
            words+=("$option")
            [[ $option == "$before" && $values != - ]] || continue
            read -ra kinds <<<"$values"
            for kind in "${kinds[@]}"; do
                case $kind in
                FILE) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$word") ;;
                DIR) [[ $values == *FILE* ]] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$word") ;;
                '*') ;;
                *) [[ $kind == "$word"* ]] && COMPREPLY+=("$kind") ;;
                esac
            done
            return
        fi
    done < <(_starstep_table)
    [[ -z $command ]] && words+=(help)
    mapfile -t COMPREPLY < <(compgen -W "${words[*]}" -- "$word" | sort -u)
}
complete -o filenames -F _starstep starstep
