#!/bin/sh
# Installs cudarun into the image of a dev container: from a release archive, with its checksum. Its options are the
# variables ARCHIVE, SHA256 and FOLLOW (devcontainer-feature.json).
set -eu

fail() {
    printf 'cudarun: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

# fetch ADDRESS FILE
fetch() {
    if command -v curl >/dev/null; then
        curl -fsSL -o "$2" "$1"
    elif command -v wget >/dev/null; then
        wget -q -O "$2" "$1"
    else
        fail "neither curl nor wget is in this image" "put the archive and its .sha256 beside install.sh"
    fi
}

[ "$(id -u)" = 0 ] || fail "a feature is installed by root" "build the container with a devcontainer tool"
case ${FOLLOW:=true} in
true | false) ;;
*) fail "the option follow is $FOLLOW" '"follow": true, or false' ;;
esac
cd "$(dirname -- "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=cudarun-VERSION-$(uname -m)-linux.tar.gz
archive=${ARCHIVE:-}
case $archive in
'')
    for file in ./cudarun-*-"$(uname -m)"-linux.tar.gz; do
        [ -f "$file" ] || fail "the option archive is empty, and no $name is beside install.sh" "\"archive\": \"https://…/$name\""
        [ -z "$archive" ] || fail "$archive and $file are beside install.sh" "name one of them: \"archive\": \"$archive\""
        archive=$file
    done
    file=$archive
    ;;
http://* | https://*)
    file=$work/archive
    fetch "$archive" "$file" || fail "$archive cannot be had" "look at the address"
    [ -n "${SHA256:-}" ] || fetch "$archive.sha256" "$file.sha256" ||
        fail "there is no $archive.sha256" '"sha256": "…", the checksum of the archive'
    ;;
*) file=$archive ;;
esac
[ -f "$file" ] || fail "there is no file $archive" "put it beside install.sh, or name an address: https://…/$name"
sum=${SHA256:-}
if [ -z "$sum" ]; then
    [ -f "$file.sha256" ] || fail "there is no $archive.sha256" '"sha256": "…", the checksum of the archive'
    read -r sum _ <"$file.sha256" || [ -n "$sum" ] || fail "$archive.sha256 is empty" "fetch it again"
fi
is=$(sha256sum <"$file")
is=${is%% *}
[ "$is" = "$(printf %s "$sum" | tr A-F a-f)" ] ||
    fail "$archive is not what its checksum says: $is and not $sum" "fetch it again; do not use this one"
mkdir "$work/unpacked"
tar -xzf "$file" -C "$work/unpacked" || fail "$archive cannot be unpacked" "it has to be a release archive: $name"
set -- "$work/unpacked"/*/install.sh
[ -f "$1" ] || fail "$archive is no release archive of cudarun" "name one: $name"
"$1" --to /usr/local >/dev/null
rm -f /etc/profile.d/cudarun.sh
if [ "$FOLLOW" = true ]; then
    mkdir -p /etc/profile.d
    /usr/local/bin/cudarun export --follow >/etc/profile.d/cudarun.sh
fi
/usr/local/bin/cudarun --version
