#compdef starstep
# zsh completion of starstep, from tools/completion/ and the option tables (make manual)
_starstep_table()
{
    cat <<'END'
@TABLE@
END
}

_starstep()
{
    local -a typed lines fields described kinds
    local line command= prefix before=$words[CURRENT-1] i name
    typed=("${(@)words[2,CURRENT-1]}")
    case $typed[1] in
    help) shift typed ;;
    launch|tune) # complete the command that it starts
        for (( i = 2; i <= $#typed; i++ )); do
            if [[ $typed[i] == (train|eval|predict|info|doctor) ]]; then
                typed=("${(@)typed[i,-1]}")
                break
            elif [[ $typed[i] == -- && $typed[1] == tune ]]; then
                typed=(train "${(@)typed[i+1,-1]}")
                break
            fi
        done ;;
    esac
    lines=("${(@f)$(_starstep_table)}")
    for line in $lines; do # the longest command that is a prefix of the words
        fields=("${(@ps:\t:)line}")
        [[ " $typed " == " $fields[1] "* && $#fields[1] -gt $#command ]] && command=$fields[1]
    done
    if [[ $PREFIX == --*=* ]]; then
        before=${PREFIX%%=*}
        compset -P '*='
    fi
    prefix=${command:+$command }
    for line in $lines; do
        fields=("${(@ps:\t:)line}")
        if [[ $fields[2] == - ]]; then
            [[ $fields[1] == $prefix?* ]] || continue
            name=${fields[1]#$prefix}
            [[ $name == *\ * ]] && described+=("${name%% *}") || described+=("$name:$fields[4]")
        elif [[ $fields[1] == $command ]]; then
            described+=("$fields[2]:${fields[4]//:/\\:}")
            [[ $fields[2] == $before && $fields[3] != - ]] || continue
            kinds=(${=fields[3]})
            compadd -- ${kinds:#(FILE|DIR|\*)}
            (( $kinds[(Ie)FILE] )) && _files || { (( $kinds[(Ie)DIR] )) && _files -/ }
            return 0
        fi
    done
    [[ -n $command ]] || described+=("help:list the options of a command")
    _describe starstep described
}
_starstep "$@"
