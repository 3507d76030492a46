#!/usr/bin/env bash
# Installs into a directory with files of its own, uses it, takes it away, and compares: tests/install.sh
set -euo pipefail
install=$(dirname "$(realpath "$0")")/../install.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
to="$work/a place"

tree() { (cd "$work" && find . -not -path './before*' -printf '%p %M %l\n' | sort; find . -type f -not -path './before*' -exec sha256sum {} + | sort) }
fail() {
    echo "tests/install.sh: $1" >&2
    exit 1
}

mkdir -p "$to/bin" "$to/share/fish"
echo mine >"$to/bin/other"
tree >"$work/before"

"$install" --to "$to"
"$to/bin/cudarun" --version | grep -q '^cudarun ' || fail "the installed binary does not run"
[ "$("$to/bin/cudarun" echo works)" = works ] || fail "it does not start programs"
for file in share/bash-completion/completions/cudarun share/zsh/site-functions/_cudarun share/fish/vendor_completions.d/cudarun.fish; do
    [ -f "$to/$file" ] || fail "$file is not there"
done
# Again over itself, then away.
"$install" --to "$to" >/dev/null
"$install" --to "$to" --uninstall
tree >"$work/before.after"
diff "$work/before" "$work/before.after" || fail "it leaves traces"

# Half-way: a file stands where a directory should be made.
mkdir -p "$to/share"
echo mine >"$to/share/zsh"
tree >"$work/before"
if "$install" --to "$to" >/dev/null 2>&1; then fail "it installs over what is in its way"; fi
[ -f "$to/bin/cudarun" ] || fail "the control: it came half-way"
"$install" --to "$to" --uninstall >/dev/null
tree >"$work/before.after"
diff "$work/before" "$work/before.after" || fail "an install that stopped half-way leaves traces"
rm "$to/share/zsh"

# Without a home, and with a target directory that is relative to where it is called.
ln -s "$(realpath "${CARGO_TARGET_DIR:-$(dirname "$install")/target}")" "$work/built"
(cd "$work" && env -u HOME CARGO_TARGET_DIR=built "$install" --to "$to" >/dev/null) || fail "it needs a home"
"$to/bin/cudarun" --version >/dev/null || fail "the installed binary does not run"
env -u HOME "$install" --help | grep -q -- --to || fail "--help needs a home"
env -u HOME "$install" --to "$to" --uninstall >/dev/null
if env -u HOME "$install" 2>/dev/null; then fail "it installs nowhere"; fi

if "$install" --to "$to" --uninstall 2>/dev/null; then fail "there is nothing to take away twice"; fi
if "$install" --nonsense 2>/dev/null; then fail "an unknown option is taken"; fi
echo "install.sh: installed, used, and taken away without a trace"
