# Completion of cudarun for fish: cudarun itself completes each line. After the program's name, the program's own completion
# takes over.

function __cudarun_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l answer (command $words[1] completions fish -- $words[2..-1] "$current" 2>/dev/null)
    string join \n -- $answer[2..-1]
    # After `--option=`, only the value is a path.
    set -l option (string match -r -- '^--[a-z-]+=' "$current")
    set -l path (string replace -r -- '^--[a-z-]+=' '' "$current")
    switch "$answer[1]"
        case files
            string replace -r -- '^' "$option" (__fish_complete_path "$path")
        case directories
            string replace -r -- '^' "$option" (__fish_complete_directories "$path")
        case commands
            __fish_complete_command
        case 'program *'
            set -l index (math (string replace 'program ' '' -- $answer[1]) + 2)
            complete -C (string join ' ' -- (string escape -- $words[$index..-1]) "$current")
    end
end

complete -c cudarun -f -a "(__cudarun_complete)"
