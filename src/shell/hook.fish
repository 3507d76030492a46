# cudarun's hook for fish: warns once, on entering a project, if its requirements are not met.

# True if this directory or one above it, up to the home directory, holds a file of a project.
function __cudarun_in_sight
    # Physical directories, not the links by which they were entered, as in cudarun.
    set -l directory (pwd -P 2>/dev/null | string collect)
    set -l home (path resolve -- "$HOME" | string collect)
    while test -n "$directory"
        for name in .cudarun.toml .cudarun.lock
            test -e "$directory/$name" -o -L "$directory/$name"; and return 0
        end
        test "$directory" = "$home"; and return 1
        set directory (string replace -r '/[^/]*$' '' -- "$directory" | string collect)
    end
    test -e /.cudarun.toml -o -e /.cudarun.lock
end

# Sets LD_AUDIT and CUDARUN_TREE so that what this shell starts is followed by the module in the first argument; with an empty
# one, takes both back.
function __cudarun_follow
    test "$argv[1]" = "$CUDARUN_HOOK_FOLLOWS"; and return
    # A shell that follows by other means stays as it is.
    test -z "$CUDARUN_HOOK_FOLLOWS" -a -n "$CUDARUN_TREE"; and return
    set -l list
    for module in (string split : -- "$LD_AUDIT")
        test -n "$module" -a "$module" != "$CUDARUN_HOOK_FOLLOWS"; and set -a list $module
    end
    set -e CUDARUN_HOOK_FOLLOWS CUDARUN_TREE
    if test -n "$argv[1]"
        set -a list $argv[1]
        set -gx CUDARUN_HOOK_FOLLOWS $argv[1]
        set -gx CUDARUN_TREE $argv[2]
    end
    if set -q list[1]
        set -gx LD_AUDIT (string join : -- $list)
    else
        set -e LD_AUDIT
    end
end

if status is-interactive; and test "$CUDARUN_HOOK" != off; and not functions -q __cudarun_hook
    function __cudarun_hook --on-event fish_prompt
        # The hook runs, so the warning below is not needed.
        if set -q __CUDARUN_WAITS
            set -e __CUDARUN_WAITS
            functions cudarun | string match -q '*__cudarun_hook*'; and functions -e cudarun
        end
        test "$PWD" = "$__CUDARUN_AT"; and return
        test "$CUDARUN_HOOK" = off; and return
        set -g __CUDARUN_AT "$PWD"
        set -l told
        if __cudarun_in_sight; and command -q cudarun
            set told (command cudarun hook --check="$__CUDARUN_TOLD")
            and set -g __CUDARUN_TOLD "$told[1]"
        end
        __cudarun_follow "$told[2]" "$told[3]"
    end
    # Until the first prompt: if a later line has removed the hook, the first use of cudarun warns.
    if not functions -q cudarun
        set -g __CUDARUN_WAITS 1
        function cudarun
            functions -e cudarun
            if not functions -q __cudarun_hook
                echo 'cudarun: the hook is set up and never runs, since a later line of the start-up file erases it: move the line with `cudarun hook` to its end' >&2
            end
            command cudarun $argv
        end
    end
end
