# Completion of cudarun for fish. After the program's name, the program's own completion takes over.

# Prints the words before the cursor: the verb, or an empty line; then the program's words, one a line.
function __cudarun_read
    set -l words (commandline -opc)
    set -e words[1]
    set -l verb ''
    while set -q words[1]
        switch $words[1]
            case --color --root --machine --also --without --config --uses --pin --pin-mode --require --verify --level --seed --shell --save --compare --python -o --output
                set -e words[1]
            case --
                set -e words[1]
                test -n "$verb"; or set verb run
                break
            case '-*'
            case run list explain export shell verify doctor trace record init allow hook completions
                test -z "$verb"; or break
                set verb $words[1]
            case '*'
                break
        end
        set -e words[1]
    end
    string join \n -- "$verb" $words
end

# True where options of cudarun itself may stand, after one of these verbs (`none`: before any).
function __cudarun_after
    set -l stands (__cudarun_read)
    set -q stands[2]; and return 1
    test -n "$stands[1]"; or set stands[1] none
    contains -- $stands[1] $argv
end

function __cudarun_in_program
    set -l stands (__cudarun_read)
    set -q stands[2]; and not contains -- "$stands[1]" list doctor allow hook completions
end

function __cudarun_program
    set -l stands (__cudarun_read)
    complete -C (string join ' ' -- (string escape -- $stands[2..-1]) (commandline -ct))
end

set -l every none run list explain export shell verify doctor trace record init allow hook completions
set -l starting none run explain export shell verify trace record init

# The test `completions_offer_every_value` writes these lists.
set -l sources compat conda debian driver extra hpc-sdk library-path modules nix own python rpm spack system toolkit wheel
set -l families cublas cublasmp cudart cudensitymat cudla cudnn cudss cufft cufftmp cufile cupauliprop cupti curand cusolver cusolvermp cusparse cusparselt custabilizer custatevec cutensor cutensornet driver mathdx nccl npp nvcomp nvfatbin nvimgcodec nvjitlink nvjpeg nvjpeg2k nvrtc nvshmem nvtiff nvtx nvvm tensorrt
set -l colors auto always never
set -l whens never auto always
set -l levels load handle conv deep
set -l modes none clean audit view preload
set -l dialects sh fish direnv
set -l shells bash zsh fish

complete -c cudarun -f
complete -c cudarun -n "__cudarun_after none" -a run -d "Start a program"
complete -c cudarun -n "__cudarun_after none" -a list -d "Show every copy that is installed"
complete -c cudarun -n "__cudarun_after none" -a explain -d "Show what a program needs, what was picked, and why"
complete -c cudarun -n "__cudarun_after none" -a export -d "Print the environment that a program would get"
complete -c cudarun -n "__cudarun_after none" -a shell -d "Open a shell in which the libraries of a program or project are set"
complete -c cudarun -n "__cudarun_after none" -a verify -d "Prove the set that a program would get"
complete -c cudarun -n "__cudarun_after none" -a doctor -d "Say whether GPU programs can work from here"
complete -c cudarun -n "__cudarun_after none" -a trace -d "Start a program and report what it mapped"
complete -c cudarun -n "__cudarun_after none" -a record -d "Start a program and write what it mapped to .cudarun.lock"
complete -c cudarun -n "__cudarun_after none" -a init -d "Write a .cudarun.toml"
complete -c cudarun -n "__cudarun_after none" -a allow -d "Let a .cudarun.toml set variables and name directories"
complete -c cudarun -n "__cudarun_after none" -a hook -d "Print a shell hook that warns about unmet requirements"
complete -c cudarun -n "__cudarun_after none" -a completions -d "Print the completions for a shell"
complete -c cudarun -n "__cudarun_after $starting" -a "(__fish_complete_command)"
complete -c cudarun -n __cudarun_in_program -a "(__cudarun_program)"
complete -c cudarun -n "__cudarun_after list" -a "$families"

complete -c cudarun -n "__cudarun_after $every" -s v -l verbose -d "Say more"
complete -c cudarun -n "__cudarun_after $every" -s q -l quiet -d "Say nothing but errors"
complete -c cudarun -n "__cudarun_after $every" -l color -x -a "$colors" -d "When to use colour"
complete -c cudarun -n "__cudarun_after $every" -l root -x -a "(__fish_complete_directories)" -d "Look at another root directory"
complete -c cudarun -n "__cudarun_after $every" -l machine -r -F -d "Look at the machine that this file describes"
complete -c cudarun -n "__cudarun_after $every" -l also -x -a "(__fish_complete_directories)" -d "Look for libraries there as well"
complete -c cudarun -n "__cudarun_after $every" -l without -x -a "$sources" -d "Do not look there for libraries"
complete -c cudarun -n "__cudarun_after $every" -l config -r -F -d "Read settings from this file"
complete -c cudarun -n "__cudarun_after $every" -l no-config -d "Read no file with settings"
complete -c cudarun -n "__cudarun_after $every" -s h -l help -d "Print help"
complete -c cudarun -n "__cudarun_after none" -s V -l version -d "Print version"
complete -c cudarun -n "__cudarun_after $starting" -l uses -x -d "Count these Python packages as used"
complete -c cudarun -n "__cudarun_after $starting" -l pin -x -d "Take this copy of a family"
complete -c cudarun -n "__cudarun_after $starting" -l require -x -d "What libraries and machine must be"
complete -c cudarun -n "__cudarun_after $starting" -l locked -d "Take the set of .cudarun.lock"
complete -c cudarun -n "__cudarun_after $starting" -l pin-mode -x -a "$modes" -d "How the loader is made to take it"
complete -c cudarun -n "__cudarun_after none run shell" -l verify -x -a "$whens" -d "When to prove the set first"
complete -c cudarun -n "__cudarun_after hook completions" -a "$shells"
complete -c cudarun -n "__cudarun_after export" -l shell -x -a "$dialects" -d "For which reader"
complete -c cudarun -n "__cudarun_after doctor" -l save -r -F -d "Write what was looked at to this file"
complete -c cudarun -n "__cudarun_after doctor" -l compare -r -F -d "Show the differences between two machines or environments"
complete -c cudarun -n "__cudarun_after list explain export verify doctor trace" -l json -d "Print one JSON object"
complete -c cudarun -n "__cudarun_after explain" -l next -d "Pass over the best set and show the next"
complete -c cudarun -n "__cudarun_after list trace" -s a -l all -d "Show every file"
complete -c cudarun -n "__cudarun_after list" -l extensions -d "List extension modules, and the symbols and libraries that their framework lacks"
complete -c cudarun -n "__cudarun_after list" -l symbols -d "With --json: name the symbols of each file"
complete -c cudarun -n "__cudarun_after list" -l python -x -a "(__fish_complete_command)" -d "Look into the environment of this Python too"
complete -c cudarun -n "__cudarun_after trace" -l predict -d "Start nothing: print what would be mapped"
complete -c cudarun -n "__cudarun_after trace verify" -l as-is -d "Leave the environment as it is"
complete -c cudarun -n "__cudarun_after verify" -l level -x -a "$levels" -d "How much to prove"
complete -c cudarun -n "__cudarun_after verify" -l fresh -d "Prove it now"
complete -c cudarun -n "__cudarun_after verify" -l seed -x -d "Use this random seed"
complete -c cudarun -n "__cudarun_after trace" -s o -l output -r -F -d "Write the report to this file"
complete -c cudarun -n "__cudarun_after init" -l print -d "Print it, and write nothing"
complete -c cudarun -n "__cudarun_after allow" -l revoke -d "Take back what was allowed"
complete -c cudarun -n "__cudarun_after allow" -l list -d "Show what is allowed"
complete -c cudarun -n "__cudarun_after allow" -F
