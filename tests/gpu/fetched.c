/* Copies numbers to the GPU and back with a CUDA runtime, and asks nvJitLink for its version. Ends with 0 if all is right.
   The signatures are those of NVIDIA's documentation; the libraries need not be there when it is compiled. */

#include <stdio.h>
#include <string.h>

int cudaMalloc(void **address, size_t size);
int cudaMemcpy(void *to, const void *from, size_t size, int kind);
int cudaRuntimeGetVersion(int *version);
int nvJitLinkVersion(unsigned *major, unsigned *minor);

int main(void)
{
    int sent[4] = {2, 3, 5, 7}, back[4] = {0}, version = 0;
    unsigned major = 0, minor = 0;
    void *address = NULL;
    int status = cudaMalloc(&address, sizeof sent);
    if (status == 0)
        status = cudaMemcpy(address, sent, sizeof sent, 1);
    if (status == 0)
        status = cudaMemcpy(back, address, sizeof back, 2);
    if (status == 0)
        status = cudaRuntimeGetVersion(&version);
    if (status == 0)
        status = nvJitLinkVersion(&major, &minor);
    if (status != 0)
        return fprintf(stderr, "error %d\n", status), 1;
    if (memcmp(sent, back, sizeof sent) != 0)
        return fprintf(stderr, "other numbers came back\n"), 1;
    printf("CUDA runtime %d.%d, nvJitLink %u.%u\n", version / 1000, version % 1000 / 10, major, minor);
    return 0;
}
