"""Single members of a wheel on the Python package index, without the rest of it.

A wheel is a zip file: its table of contents stands at the end, and each member is a range of bytes. Where the index
does not answer ranges, the whole wheel is fetched and only the members are kept. pip finds the wheel and makes the
requests, so that its configuration counts, and no host is named here.
"""

import contextlib
import hashlib
import io
import os
import zipfile

from pip._internal.cli.cmdoptions import make_target_python
from pip._internal.commands import create_command
from pip._vendor.packaging.specifiers import SpecifierSet

# pip is told each: of these names only the old ones include older ones too.
TAGS = [*(f"manylinux_2_{minor}" for minor in range(39, 4, -1)), "manylinux2014", "manylinux2010", "manylinux1"]
PLAIN = {"Accept-Encoding": "identity"}
BLOCK = 1 << 20
AHEAD = 32 << 20


class NoRanges(Exception):
    pass


class Index:
    """What pip says and fetches for one version of Python on one kind of machine."""

    def __init__(self, python, machine="x86_64", tags=TAGS):
        command = create_command("download")
        options = ["--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", python, "--dest", "."]
        for tag in tags:
            options += ["--platform", f"{tag}_{machine}"]
        parsed, _ = command.parse_args([*options, "nothing"])
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(command.main_context())
        self.session = command.get_default_session(parsed)
        self.finder = command._build_package_finder(parsed, self.session, target_python=make_target_python(parsed))

    def find(self, wheel):
        name, version = wheel.split("==")
        best = self.finder.find_best_candidate(name, SpecifierSet(f"=={version}")).best_candidate
        if best is None:
            raise LookupError(f"{wheel}: no wheel for this Python and machine")
        return best.link

    def size(self, link):
        answer = self.session.head(link.url_without_fragment, headers=PLAIN)
        answer.raise_for_status()
        return int(answer.headers["Content-Length"])

    def members(self, link, is_wanted, target, most=None):
        """Writes the members that are wanted below `target`. Returns how many bytes were fetched, and whether whole."""
        size = self.size(link)
        try:
            file = Ranges(self.session, link.url_without_fragment, size)
            extract(file, is_wanted, target, file.expect)
            return file.fetched, False
        except NoRanges:
            if most is not None and size > most:
                raise
            self.whole(link, is_wanted, target)
            return size, True

    def whole(self, link, is_wanted, target):
        """The same through all of the wheel, whose digest is compared with what the index says."""
        partial = target.with_name(target.name + ".whl")
        digest = hashlib.sha256()
        with open(partial, "wb") as file:
            answer = self.session.get(link.url_without_fragment, headers=PLAIN, stream=True)
            answer.raise_for_status()
            for piece in answer.iter_content(BLOCK):
                digest.update(piece)
                file.write(piece)
        if link.hash_name == "sha256" and digest.hexdigest() != link.hash:
            partial.unlink()
            raise OSError(f"{link.filename}: the digest is not the one that the index has")
        extract(partial, is_wanted, target)
        partial.unlink()


class Ranges(io.RawIOBase):
    """A remote file that is read range by range."""

    def __init__(self, session, url, size):
        self.session, self.url, self.size = session, url, size
        self.at = self.fetched = self.until = 0
        self.start, self.held = 0, b""

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=0):
        self.at = {0: 0, 1: self.at, 2: self.size}[whence] + offset
        return self.at

    def expect(self, start, length):
        """From there so many bytes will be read, one after the other."""
        self.until = min(start + length, self.size)
        self.fetch(start)

    def fetch(self, start):
        end = min(start + AHEAD, self.until)
        answer = self.session.get(self.url, headers=PLAIN | {"Range": f"bytes={start}-{end - 1}"}, stream=True)
        if answer.status_code != 206:
            answer.close()
            raise NoRanges
        self.start, self.held = start, answer.content
        self.fetched += len(self.held)

    def read(self, length=-1):
        length = self.size - self.at if length < 0 else min(length, self.size - self.at)
        if length <= 0:
            return b""
        if not self.start <= self.at < self.start + len(self.held):
            if self.at >= self.until:
                # The end is read first: the table of contents.
                self.until = self.size
            self.fetch(self.at if self.until < self.size else min(self.at, max(0, self.size - BLOCK)))
        from_here = self.at - self.start
        piece = self.held[from_here : from_here + length]
        self.at += len(piece)
        return piece

    def readinto(self, buffer):
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


def extract(file, is_wanted, target, expect=None):
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.is_dir() or not is_wanted(entry.filename):
                continue
            if expect:
                # Its own header repeats the name, with another field of unknown length after it.
                expect(entry.header_offset, 30 + 2 * len(entry.filename.encode()) + 4096 + entry.compress_size)
            path = os.path.join(target, entry.filename)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            # The archive checks what it unpacks against its sum.
            with archive.open(entry) as source, open(path, "wb") as out:
                while piece := source.read(BLOCK):
                    out.write(piece)
