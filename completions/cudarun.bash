# Completion of cudarun for bash. After the program's name, the program's own completion takes over.
# shellcheck disable=SC2207  # words without blanks are meant to be split

_cudarun() {
    local cur prev verbs="run list explain export shell verify doctor trace record init allow hook completions"
    local common="-v --verbose -q --quiet --color --root --machine --also --without --config --no-config -h --help"
    # The test `completions_offer_every_value` writes these lists.
    local sources="compat conda debian driver extra hpc-sdk library-path modules nix own python rpm spack system toolkit wheel"
    local families="cublas cublasmp cudart cudensitymat cudla cudnn cudss cufft cufftmp cufile cupauliprop cupti curand cusolver cusolvermp cusparse cusparselt custabilizer custatevec cutensor cutensornet driver mathdx nccl npp nvcomp nvfatbin nvimgcodec nvjitlink nvjpeg nvjpeg2k nvrtc nvshmem nvtiff nvtx nvvm tensorrt"
    local colors="auto always never"
    local whens="never auto always"
    local levels="load handle conv deep"
    local modes="none clean audit view preload"
    local dialects="sh fish direnv"
    local shells="bash zsh fish"

    local wishes="--uses --pin --pin-mode --require --locked"
    # Verbs that no program follows.
    local alone=" list doctor allow hook completions "
    local index=1 word verb="" before=""
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD - 1]}

    # The first word that is neither an option nor an option's value is a verb or the program.
    while ((index < COMP_CWORD)); do
        word=${COMP_WORDS[index]}
        case $word in
        --color | --root | --machine | --also | --without | --uses | --pin | --pin-mode | --require | --config | --verify | --level | --seed | --shell | --save | --python | -o | --output)
            [[ ${COMP_WORDS[index + 1]} != "=" ]] || ((index += 1))
            ((index += 1))
            ;;
        --)
            verb=${verb:-run}
            ((index += 1))
            [[ $alone == *" $verb "* ]] || _cudarun_program "$index"
            return
            ;;
        -*) ;;
        *)
            if [[ -z $verb && " $verbs " == *" $word "* ]]; then
                verb=$word
            elif [[ $alone != *" $verb "* ]]; then
                _cudarun_program "$index"
                return
            fi
            ;;
        esac
        ((index += 1))
    done

    # `--option=value` comes as three words; as one where `=` is not among COMP_WORDBREAKS.
    case $prev:$cur in
    *:=) cur="" ;;
    =:*) prev=${COMP_WORDS[COMP_CWORD - 2]} ;;
    *:--*=*) prev=${cur%%=*} before=${cur%%=*}= cur=${cur#*=} ;;
    esac

    COMPREPLY=()
    case $prev in
    --color) COMPREPLY=($(compgen -P "$before" -W "$colors" -- "$cur")) ;;
    --verify) COMPREPLY=($(compgen -P "$before" -W "$whens" -- "$cur")) ;;
    --level) COMPREPLY=($(compgen -P "$before" -W "$levels" -- "$cur")) ;;
    --root | --also) COMPREPLY=($(compgen -P "$before" -d -- "$cur")) ;;
    --without) COMPREPLY=($(compgen -P "$before" -W "$sources" -- "$cur")) ;;
    --shell) COMPREPLY=($(compgen -P "$before" -W "$dialects" -- "$cur")) ;;
    --python) COMPREPLY=($(compgen -P "$before" -c -- "$cur")) ;;
    --pin-mode) COMPREPLY=($(compgen -P "$before" -W "$modes" -- "$cur")) ;;
    -o | --output | --config | --machine | --save | --compare) COMPREPLY=($(compgen -P "$before" -f -- "$cur")) ;;
    esac
    case $prev in
    --color | --verify | --root | --machine | --also | --without | --python | --uses | --pin | --pin-mode | --require | --config | --level | --seed | --shell | --save | --compare | -o | --output) return ;;
    esac

    case $verb:$cur in
    :-*) COMPREPLY=($(compgen -W "$common $wishes --verify -V --version" -- "$cur")) ;;
    run:-*) COMPREPLY=($(compgen -W "$common $wishes --verify" -- "$cur")) ;;
    list:-*) COMPREPLY=($(compgen -W "$common -a --all --extensions --json --symbols --python" -- "$cur")) ;;
    list:*) COMPREPLY=($(compgen -W "$families" -- "$cur")) ;;
    trace:-*) COMPREPLY=($(compgen -W "$common $wishes --json --predict --as-is -a --all -o --output" -- "$cur")) ;;
    verify:-*) COMPREPLY=($(compgen -W "$common $wishes --json --level --fresh --as-is --seed" -- "$cur")) ;;
    doctor:-*) COMPREPLY=($(compgen -W "$common --json --save --compare" -- "$cur")) ;;
    shell:-*) COMPREPLY=($(compgen -W "$common $wishes --verify" -- "$cur")) ;;
    export:-*) COMPREPLY=($(compgen -W "$common $wishes --json --shell" -- "$cur")) ;;
    hook:-* | completions:-*) COMPREPLY=($(compgen -W "$common" -- "$cur")) ;;
    hook:* | completions:*) COMPREPLY=($(compgen -W "$shells" -- "$cur")) ;;
    doctor:*) ;;
    explain:-*) COMPREPLY=($(compgen -W "$common $wishes --json --next" -- "$cur")) ;;
    record:-*) COMPREPLY=($(compgen -W "$common $wishes" -- "$cur")) ;;
    init:-*) COMPREPLY=($(compgen -W "$common $wishes --print" -- "$cur")) ;;
    allow:-*) COMPREPLY=($(compgen -W "$common --revoke --list" -- "$cur")) ;;
    allow:*) COMPREPLY=($(compgen -f -- "$cur")) ;;
    *:-*) COMPREPLY=($(compgen -W "$common $wishes --json" -- "$cur")) ;;
    :*) COMPREPLY=($(compgen -W "$verbs" -- "$cur") $(compgen -c -- "$cur")) ;;
    *) COMPREPLY=($(compgen -c -- "$cur")) ;;
    esac
}

# Completes from the word at this index on, as if the line began there.
_cudarun_program() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif ((COMP_CWORD == $1)); then
        COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
    else
        COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
    fi
}

complete -o default -F _cudarun cudarun
