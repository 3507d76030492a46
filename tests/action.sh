#!/usr/bin/env bash
# Runs the step of .github/actions/check as GitHub's runner does, with its variables and a `gh` that only writes down how it is
# called, on saved nodes; and the snippets of docs/ci.md: tests/action.sh [cudarun]
#
# Needs gcc, jq, and python3 with venv and the network for PyYAML, which is kept in ${XDG_CACHE_HOME:-~/.cache}/cudarun-tests.
# shellcheck disable=SC2016,SC2317  # code for other shells; functions called by name
set -euo pipefail
here=$(dirname "$(realpath "$0")")
repository=$(realpath "$here/..")
cudarun=$(realpath "${1:-$repository/target/release/cudarun}")
action=$repository/.github/actions/check
document=$repository/docs/ci.md
yaml=${XDG_CACHE_HOME:-$HOME/.cache}/cudarun-tests/pyyaml-6.0.3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ ! -x "$yaml/bin/python" ]; then
    python3 -m venv "$yaml"
    "$yaml/bin/pip" install -q --disable-pip-version-check pyyaml==6.0.3
fi
mkdir -p "$work/home" "$work/bin" "$work/temp"
export HOME=$work/home LC_ALL=C.UTF-8
unset XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME GITHUB_ACTIONS GITHUB_WORKSPACE
workspace=$work/checkout
failed=0

# is WHAT WANTED GOT: that a test has come out so; with a star for anything.
is() {
    # shellcheck disable=SC2053  # a pattern
    if [[ $3 != $2 ]]; then
        printf '%s\n  should be  %s\n  and is     %s\n' "$1" "$2" "$3"
        failed=1
    fi
}

shared() { gcc -shared -fPIC -Wl,--build-id -Wl,-soname,"$2" -o "$1" -x c - <<<"$3"; }

# machine NAME DRIVER NCCL: the files of a node with a GPU, and a program that is linked against NCCL.
machine() {
    local root=$work/$1 lib=$work/$1/usr/lib/x86_64-linux-gnu
    mkdir -p "$lib" "$root"/{usr/bin,usr/lib64,etc,dev,root,sys/module/nvidia}
    ln -s usr/lib usr/lib64 "$root/"
    cp /lib64/ld-linux-x86-64.so.2 "$root/usr/lib64/"
    cp "$(gcc -print-file-name=libc.so.6)" "$lib/"
    echo "$2" >"$root/sys/module/nvidia/version"
    touch "$root"/dev/nvidia{0,ctl,-uvm}
    shared "$lib/libcuda.so.$2" libcuda.so.1 'int cuInit(void) { return 0; }'
    ln -s "libcuda.so.$2" "$lib/libcuda.so.1"
    shared "$lib/libnccl.so.$3" libnccl.so.2 "const char *version = \"$3\"; int ncclGetVersion(void) { return 0; }"
    ln -s "libnccl.so.$3" "$lib/libnccl.so.2"
    gcc -o "$root/usr/bin/app" -x c - -L"$lib" -l:libnccl.so.2 \
        <<<'int ncclGetVersion(void); int main(void) { return ncclGetVersion(); }'
}

# describe NAME: the description of that machine, as it writes it itself.
describe() {
    env -i HOME="$HOME" PATH=/usr/bin:/bin "$cudarun" --root "$work/$1" -q doctor --save-in "$workspace/machines" --name "$1" \
        --for 'app --serve'
}

# The archive of a release, from which the step installs cudarun.
release() {
    local name
    name=cudarun-0-$(uname -m)-linux
    mkdir -p "$work/$name/bin"
    cp "$cudarun" "$work/$name/bin/cudarun"
    cp -rL "$repository/completions/wheel/data/share" "$work/$name/share"
    tar -C "$work" -c "$name" | gzip -1 >"$workspace/cudarun.tar.gz"
    (cd "$workspace" && sha256sum cudarun.tar.gz >cudarun.tar.gz.sha256)
}

# What a runner obeys in these lines: commands at the beginning of a line, and its older ones anywhere, unless they are stopped.
obeyed() {
    awk '
        { line = $0; sub(/^[ \t\r]+/, "", line) }
        stopped != "" { if (line == "::" stopped "::") stopped = ""; next }
        line ~ /^::stop-commands::/ { stopped = substr(line, 18); next }
        line ~ /^::[a-z-]+[ :]/ || /##\[/ { print }'
}

# step INPUT=VALUE…: runs the step. Sets `status`, `said`, and `commands`, those that a runner obeys.
step() {
    : >"$work/summary"
    : >"$work/output"
    : >"$work/gh.log"
    status=0
    said=$(cd "$workspace" && env PATH="$work/bin:/usr/bin:/bin" GITHUB_ACTIONS=true GITHUB_WORKSPACE="$workspace" \
        GITHUB_STEP_SUMMARY="$work/summary" GITHUB_OUTPUT="$work/output" RUNNER_TEMP="$work/temp" \
        GITHUB_SERVER_URL=https://server.invalid GITHUB_REPOSITORY=owner/project ACTION_REPOSITORY='' ACTION_REF='' \
        GITHUB_WORKFLOW=checks GITHUB_JOB=nodes GH_LOG="$work/gh.log" GH_LOGIN='github-actions[bot]' GH_COMMENTS='[]' GH_FAILS='' \
        PULL_REQUEST=7 \
        INPUT_NODES=machines INPUT_PROGRAM='' INPUT_IMAGE='' INPUT_DIRECTORY=app INPUT_LOCK=auto \
        INPUT_ARCHIVE=cudarun.tar.gz INPUT_SHA256='' INPUT_COMMENT=false "$@" "$action/check.sh" 2>&1) || status=$?
    commands=$(obeyed <<<"$said")
}

output() { sed -n "s/^$1=//p" "$work/output"; }

project_that_fits_and_its_neighbour() {
    printf '# what train.py needs\n[requires]\nnccl = ">=2.20"\n' >"$workspace/app/.cudarun.toml"
    step
    is "a project that fits" "0 good " "$status $(output result) $commands"
    is "its page" '```text*`app --serve` works on all of 2 machines*' "$(cat "$work/summary")"
    is "the output page" "$(cat "$work/summary")" "$(cat "$(output page)")"
    is "no comment" "" "$(cat "$work/gh.log")"
    sed -i 's/2.20/2.23/' "$workspace/app/.cudarun.toml"
    step
    is "its neighbour" "1 bad ::error title=cudarun%3A gpu02,file=app/.cudarun.toml,line=3::requires NCCL >=2.23; gpu02 has 2.21.5" \
        "$status $(output result) $commands"
    is "its page" '*works on 1 of 2 machines*gpu02*no: .cudarun.toml:3 requires NCCL >=2.23; it has*2.21.5*' "$(cat "$work/summary")"
    printf '[requires]\ndriver = ">=570"\n' >"$workspace/app/.cudarun.toml"
    step
    is "a driver" "1 ::error title=cudarun%3A gpu02,file=app/.cudarun.toml,line=2::requires driver >=570; gpu02 has 550.54.15" \
        "$status $commands"
    printf '[requires]\nnccl = "2.x.y"\n' >"$workspace/app/.cudarun.toml"
    step
    is "a bad range" "2 unknown ::error title=cudarun%3A setting-fault,file=app/.cudarun.toml,line=2::*" \
        "$status $(output result) $commands"
    rm "$workspace/app/.cudarun.toml"
}

lock_of_one_node() {
    local lock=$workspace/app/.cudarun.lock
    (cd "$workspace" && "$cudarun" -q fleet --lock "$lock" machines/gpu01.json 2>/dev/null)
    step INPUT_NODES=machines/gpu01.json
    is "the node of the lock" "0 good " "$status $(output result) $commands"
    step
    is "another node" "1 ::error title=cudarun%3A gpu02,file=app/.cudarun.lock,line=$(grep -n 'name = ' "$lock" | cut -d: -f1)::requires NCCL =2.25.1; gpu02 has 2.21.5" \
        "$status $commands"
    step INPUT_LOCK=false
    is "without the lock" "0 " "$status $commands"
    # Other bytes of the same version.
    sed -i 's/^\("libnccl.so.2" = "\)../\1ff/' "$lock"
    step INPUT_NODES=machines/gpu01.json
    is "another build" "1 ::error *file=app/.cudarun.lock,*requires NCCL, the exact files of the lock; gpu01 has other builds: 2.25.1" \
        "$status $commands"
    rm "$lock"
    step INPUT_LOCK=true
    is "no lock" "2 unknown *.cudarun.lock*" "$status $(output result) $said"
}

# A runner obeys what is written here where it is part of a script or of a line.
hostile_inputs() {
    local line='app "; touch $GITHUB_WORKSPACE/pwned; echo "$(touch $GITHUB_WORKSPACE/pwned)' known='::error title=cudarun%3A *'
    (cd "$workspace" && GITHUB_WORKSPACE=$workspace bash -c "echo \"$line\"" >/dev/null)
    is "a script that is made of the input" yes "$([ -e "$workspace/pwned" ] && echo yes)"
    rm "$workspace/pwned"
    step INPUT_PROGRAM="$line"
    is "an input with shell code" "1 no" "$status $([ -e "$workspace/pwned" ] && echo yes || echo no)"
    line='app ::warning::x ##[add-mask]y'
    step INPUT_PROGRAM="$line
--json"
    is "an input with commands" 1 "$status"
    while IFS= read -r line; do is "a command" "$known" "$line"; done <<<"$commands"
    # In the names of files, and in text that an error repeats.
    line=$'b::c,d%0A\n::warning ::x'
    mkdir -p "$workspace/$line"
    printf '[requires]\nnccl = ">=2.23"\n' >"$workspace/$line/.cudarun.toml"
    step INPUT_DIRECTORY="$line"
    is "a hostile directory" '1 ::error title=cudarun%3A gpu02,file=b%3A%3Ac%2Cd%250A\\u{a}%3A%3Awarning %3A%3Ax/.cudarun.toml,line=2::requires NCCL*' \
        "$status $commands"
    is "the same without escapes" "*::warning ::x/*" "$(printf '::error file=%s/.cudarun.toml::requires\n' "$line" | obeyed)"
    printf '[requires]\nnccl = "##[add-mask]y"\n' >"$workspace/$line/.cudarun.toml"
    step INPUT_DIRECTORY="$line"
    is "hostile settings" 2 "$status"
    while IFS= read -r line; do is "a command" "::error title=cudarun*" "$line"; done <<<"$commands"
}

comments() {
    local mark known use
    step INPUT_COMMENT=true
    is "a comment" "0 api graphql -f query={ viewer { login } } --jq .data.viewer.login
api --paginate repos/owner/project/issues/7/comments --jq *
api --silent --method POST repos/owner/project/issues/7/comments -F body=@*
<!-- cudarun * -->
$(cat "$work/summary")" "$status $(cat "$work/gh.log")"
    mark=$(grep '^<!-- cudarun' "$work/gh.log")
    # Others' comments with the mark, and two of its own.
    known=$(printf '{"id": %s, "user": {"login": "%s"}, "body": "%s"},' 39 someone "$mark" 40 'github-actions[bot]' 'text' \
        41 'github-actions[bot]' "$mark\\ntext" 42 'github-actions[bot]' "$mark" 43 person "$mark")
    step INPUT_COMMENT=true GH_COMMENTS="[${known%,}]"
    is "a later one" "*--method PATCH repos/owner/project/issues/comments/41 -F*" "$(cat "$work/gh.log")"
    step INPUT_COMMENT=true GH_COMMENTS="[${known%,}]" GH_LOGIN=person
    is "a later one by a personal token" "*--method PATCH repos/owner/project/issues/comments/43 -F*" "$(cat "$work/gh.log")"
    for use in GITHUB_JOB=other INPUT_NODES=machines/gpu01.json INPUT_PROGRAM=app INPUT_DIRECTORY=.; do
        step INPUT_COMMENT=true GH_COMMENTS="[${known%,}]" "$use"
        is "another use: $use" "*--method POST repos/owner/project/issues/7/comments -F*" "$(cat "$work/gh.log")"
    done
    step INPUT_COMMENT=true GH_FAILS=1
    is "without permission" "0 ::warning title=cudarun::*" "$status $commands"
    step INPUT_COMMENT=true PULL_REQUEST=
    is "outside a pull request" "0 " "$status $(cat "$work/gh.log")"
}

image() {
    # A base and a program on it, as `docker export` writes them; the neighbour lacks NCCL.
    tar -C "$work/gpu01" --exclude './dev/*' --exclude './sys/*' --exclude 'libcuda*' -cf "$workspace/image.tar" .
    tar -C "$work/gpu01" --exclude './dev/*' --exclude './sys/*' --exclude 'libcuda*' --exclude 'libnccl*' -cf "$workspace/bare.tar" .
    step INPUT_IMAGE=image.tar INPUT_PROGRAM=/usr/bin/app
    is "an image that works" "0 good " "$status $(output result) $commands"
    step INPUT_IMAGE=bare.tar INPUT_PROGRAM=/usr/bin/app
    is "its neighbour" "1 bad ::error title=cudarun%3A gpu*NCCL*" "$status $(output result) $commands"
}

what_can_be_wrong() {
    echo '{' >"$workspace/machines/gpu03.json"
    step
    is "a description that is none" "2 unknown ::error title=cudarun%3A description,file=machines/gpu03.json::*" \
        "$status $(output result) $commands"
    rm "$workspace/machines/gpu03.json"
    for input in INPUT_NODES= INPUT_DIRECTORY=none INPUT_LOCK=yes INPUT_ARCHIVE= INPUT_ARCHIVE=none.tar.gz \
        INPUT_SHA256=00 INPUT_IMAGE=none.tar INPUT_NODES=none; do
        step "$input"
        is "$input" "2 unknown ::error title=cudarun*" "$status $(output result) $commands"
    done
    # Only a tag of a release has an archive there.
    for input in v1 v1.2.0 main "v" vnext "$(printf '%040d' 7)"; do
        step INPUT_ARCHIVE= ACTION_REPOSITORY=owner/cudarun ACTION_REF="$input"
        case $input in
        v1.2.0) is "used as $input" "*/owner/cudarun/releases/download/$input/cudarun-${input#v}-*cannot be had*" "$said" ;;
        *) is "used as $input" "2 ::error title=cudarun::*a branch, a commit or a path*which \`archive\`" "$status $commands" ;;
        esac
    done
}

# Snippets use the inputs that there are, and the text is YAML.
texts() {
    "$yaml/bin/python" - "$action/action.yml" "$document" "$action/check.sh" <<'END'
import re, sys, yaml
action = yaml.safe_load(open(sys.argv[1]))
blocks = re.findall(r"```yaml\n(.*?)```", open(sys.argv[2]).read(), re.S)
assert len(blocks) == 2, blocks
for block in map(yaml.safe_load, blocks):
    for job in block.get("jobs", {}).values():
        uses = [step for step in job["steps"] if "actions/check@" in step["uses"]]
        assert uses, job
        for step in uses:
            assert set(step["with"]) <= set(action["inputs"]), step
            needed = {name for name, row in action["inputs"].items() if row.get("required")}
            assert needed <= set(step["with"]), step
step, = action["runs"]["steps"]
# No expression in what the shell reads.
assert "${{" not in step["run"], step
given = {name for name in step["env"]}
read = set(re.findall(r"\b(?:INPUT_\w+|ACTION_\w+|PULL_REQUEST)", open(sys.argv[3]).read()))
assert read <= given, read - given
END
}

# The lines of the snippet for GitLab, as its runner gives them to a shell.
gitlab() {
    local lines
    lines=$("$yaml/bin/python" - "$document" <<'END'
import re, sys, yaml
blocks = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", open(sys.argv[1]).read(), re.S))
print("\n".join(line for block in blocks if "jobs" not in block for job in block.values() for line in job["script"]))
END
    )
    printf '[requires]\nnccl = ">=2.23"\n' >"$workspace/.cudarun.toml"
    status=0
    ln -sf "$cudarun" "$work/bin/cudarun"
    said=$(cd "$workspace" && PATH=$work/bin:/usr/bin:/bin bash -ec "$lines" 2>&1) || status=$?
    is gitlab "1 .cudarun.toml:2: error: requires NCCL >=2.23; gpu02 has 2.21.5" "$status $said"
    rm "$workspace/.cudarun.toml" "$work/bin/cudarun"
}

cat >"$work/bin/gh" <<'END'
#!/bin/bash
echo "$*" >>"$GH_LOG"
if [ -n "$GH_FAILS" ]; then
    echo "::add-mask::what the runner must not obey"
    exit 1
fi
case " $* " in
*" graphql "*) jq -r "${!#}" <<<"{\"data\": {\"viewer\": {\"login\": \"$GH_LOGIN\"}}}" ;;
*" --jq "*) jq -r "${!#}" <<<"$GH_COMMENTS" ;;
*)
    body=${!#}
    cat "${body#body=@}" >>"$GH_LOG"
    ;;
esac
END
chmod +x "$work/bin/gh"
mkdir -p "$workspace/app" "$workspace/machines"
machine gpu01 580.95.05 2.25.1
machine gpu02 550.54.15 2.21.5
describe gpu01
describe gpu02
release
for name in texts project_that_fits_and_its_neighbour lock_of_one_node hostile_inputs comments image what_can_be_wrong gitlab; do
    printf '%s (%d s)\n' "$name" "$SECONDS"
    $name
done
[ $failed -eq 0 ] && printf 'action: all of it holds (%d s)\n' "$SECONDS"
exit $failed
