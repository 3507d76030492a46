#!/bin/sh
# Makes the program `hello` in the current directory, on a machine without a CUDA toolkit: for the linker, an empty function
# in the place of the CUDA runtime is enough.
set -eu
examples=$(dirname "$0")
stub=$(mktemp -d)
trap 'rm -r "$stub"' EXIT
echo 'int cudaRuntimeGetVersion(int *version) { return version == 0; }' >"$stub/stub.c"
cc -shared -fPIC -Wl,-soname,libcudart.so.12 -o "$stub/libcudart.so" "$stub/stub.c"
cc -o hello "$examples/hello.c" "-L$stub" -lcudart
