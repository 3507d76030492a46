#!/usr/bin/env bash
# Does what CONTRIBUTING.md says, word for word: tests/contributing.sh
#
# Applies every diff of the page to a copy of the checkout, builds it, runs the commands below each diff and looks for the lines
# that the page shows. Then the tests of the documents must pass with the additions. Needs cargo, cc, git and python3. The copy and
# what is built of it stay in target/contributing, so that a second run is quick.
set -euo pipefail
checkout=$(realpath "$(dirname "$(realpath "$0")")/..")
copy=$checkout/target/contributing
page=$checkout/CONTRIBUTING.md
names=(framework family source message fault text shell key setting requirement mode)
# What other crates were compiled to for the checkout serves the copy as well; the copy's own files have other names.
built=${CARGO_TARGET_DIR:-$checkout/target}/debug
export CARGO_TARGET_DIR=$copy/target
# Settings and caches of the person who runs this do not count.
export XDG_CACHE_HOME=$copy/target/cache XDG_CONFIG_HOME=$copy/target/config
unset LD_LIBRARY_PATH PYTHONPATH

fail() {
    echo "tests/contributing.sh: $1" >&2
    exit 1
}

# block COMMENT: the text of the first block after this comment.
block() {
    local text
    text=$(awk -v comment="<!-- $1 -->" '
        $0 == comment { seen = 1; next }
        seen && /^```/ { if (inside) exit; inside = 1; next }
        inside' "$page")
    [ -n "$text" ] || fail "CONTRIBUTING.md has no block after <!-- $1 -->"
    printf '%s\n' "$text"
}

# expected NAME: the lines that the page shows below the commands of this name.
expected() {
    awk -v comment="<!-- run by tests/contributing.sh as $1 -->" '
        $0 == comment { seen = 1; next }
        seen && /^```text$/ { inside = 1; next }
        inside && /^```$/ { exit }
        seen && !inside && /^<!--/ { exit }
        inside' "$page"
}

mkdir -p "$copy"
find "$copy" -mindepth 1 -maxdepth 1 ! -name target -exec rm -rf {} +
rm -rf "$copy/target/example" "$copy/target/cache"
mkdir -p "$copy/target/debug"
for part in .fingerprint build deps; do
    [ ! -d "$built/$part" ] || [ -d "$copy/target/debug/$part" ] || cp -a "$built/$part" "$copy/target/debug"
done
tar --exclude=./target --exclude=./.git -C "$checkout" -cf - . | tar -C "$copy" -xf -
cd "$copy"

marked=$(grep -c '^<!-- applied by tests/contributing.sh as ' "$page")
[ "$marked" = ${#names[@]} ] || fail "CONTRIBUTING.md has $marked diffs, and this script knows ${#names[@]}"
for name in "${names[@]}"; do
    block "applied by tests/contributing.sh as $name" >"target/$name.diff"
    # Outside of a repository: the copy is below one that ignores it.
    GIT_CEILING_DIRECTORIES=$checkout/target git apply --verbose "target/$name.diff"
done
cargo build --locked

for name in "${names[@]}"; do
    printf -- '-- %s (%d s)\n' "$name" "$SECONDS"
    block "run by tests/contributing.sh as $name" >"target/$name.sh"
    bash -eu "target/$name.sh" >target/said 2>&1 || { cat target/said && fail "the commands of $name"; }
    shown=0
    while read -r line; do
        # Columns are as wide as their widest cell, and paths are those of this copy.
        sed "s,$copy/,…/,g" target/said | tr -s ' ' | grep -qF -- "$(tr -s ' ' <<<"$line")" ||
            { cat target/said && fail "$name does not print: $line"; }
        shown=$((shown + 1))
    done < <(expected "$name")
    [ $shown -gt 0 ] || fail "CONTRIBUTING.md shows no output for $name"
done

block "run by tests/contributing.sh as snapshots" >target/snapshots.sh
bash -eu target/snapshots.sh >target/said 2>&1 || { cat target/said && fail "the commands after an addition"; }

printf -- '-- the tests of the documents (%d s)\n' "$SECONDS"
cargo test --locked --test tests documents >target/said 2>&1 || { cat target/said && fail "the documents do not go with the additions"; }
grep -q '^test documents::completeness::every_source_is_documented_once_and_no_other ... ok$' target/said || { cat target/said && fail "no test of the sources"; }
echo "contributing: every addition of CONTRIBUTING.md works ($SECONDS s)"
