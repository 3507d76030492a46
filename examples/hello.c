/* Prints the version of the CUDA runtime, which it is linked against. `examples/build.sh` makes `hello` of it. */

#include <stdio.h>

int cudaRuntimeGetVersion(int *version);

int main(void)
{
    int version = 0;
    int status = cudaRuntimeGetVersion(&version);
    if (status != 0)
        return fprintf(stderr, "cudaRuntimeGetVersion: error %d\n", status), 1;
    printf("CUDA runtime %d.%d\n", version / 1000, version % 1000 / 10);
    return 0;
}
