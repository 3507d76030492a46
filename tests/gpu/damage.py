"""Flips a byte of a library: the first of a function that it exports.

    damage.py LIBRARY FUNCTION
"""

import struct
import sys


def main():
    path, wanted = sys.argv[1], sys.argv[2].encode()
    with open(path, "r+b") as file:
        data = file.read()
        offset = place(data, wanted)
        file.seek(offset)
        file.write(bytes([data[offset] ^ 0xFF]))
    print(f"{path}: byte {offset} flipped")


def place(data, wanted):
    """Where the code of a function begins in the file."""
    sections = struct.unpack_from("<Q", data, 0x28)[0]
    size, count = struct.unpack_from("<HH", data, 0x3A)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, sections + index * size) for index in range(count)]
    for head in (head for head in heads if head[1] == 11):
        names = heads[head[6]][4]
        for at in range(head[4], head[4] + head[5], 24):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            end = data.index(b"\0", names + name)
            if value and data[names + name : end] == wanted:
                code = next(h for h in heads if h[3] <= value < h[3] + h[5] and h[1] == 1)
                return value - code[3] + code[4]
    sys.exit(f"no function {wanted.decode()}")


main()
