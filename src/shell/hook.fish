# cudarun's hook for fish: says, once, what does not hold in the project that was entered.

# Whether a project is in sight: a file of its own, here or above, as far as the home directory.
function __cudarun_in_sight
    # Where the kernel says that this is, and not the link by which it was entered: so does cudarun.
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

if status is-interactive; and test "$CUDARUN_HOOK" != off; and not functions -q __cudarun_hook
    function __cudarun_hook --on-event fish_prompt
        # It lives: nobody need be told otherwise.
        if set -q __CUDARUN_WAITS
            set -e __CUDARUN_WAITS
            functions cudarun | string match -q '*__cudarun_hook*'; and functions -e cudarun
        end
        test "$PWD" = "$__CUDARUN_AT"; and return
        test "$CUDARUN_HOOK" = off; and return
        set -g __CUDARUN_AT "$PWD"
        if __cudarun_in_sight; and command -q cudarun
            set -l told (command cudarun hook --check="$__CUDARUN_TOLD")
            and set -g __CUDARUN_TOLD "$told"
        end
    end
    # Until the first prompt: should a later line have thrown the hook out, the first use of cudarun says so.
    if not functions -q cudarun
        set -g __CUDARUN_WAITS 1
        function cudarun
            functions -e cudarun
            if not functions -q __cudarun_hook
                echo 'cudarun: the hook is set up and never asked, since a later line of the start-up file has erased it: move the line with `cudarun hook` to its end' >&2
            end
            command cudarun $argv
        end
    end
end
