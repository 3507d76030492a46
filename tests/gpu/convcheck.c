/* A plain C program: loads cuDNN by SONAME (or is linked against it), creates a handle, compares one small
   convolution with the CPU, and prints every NVIDIA file that is mapped. Exit status 0 when it came out right. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { C = 3, SIDE = 8, K = 4, R = 3 };

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        printf("missing %s\n", name);
        exit(3);
    }
    return found;
}

static void show_mapped(void)
{
    char line[4096], last[4096] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (path && strcmp(path, last) && (strstr(path, "/libcu") || strstr(path, "/libnv") || strstr(path, "/libnccl"))) {
            strcpy(last, path);
            fputs(path, stdout);
        }
    }
}

int main(void)
{
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW), *cudnn = dlopen("libcudnn.so.9", RTLD_NOW);
    if (!runtime || !cudnn) {
        printf("dlopen: %s\n", dlerror());
        return 2;
    }
    int (*create)(void **) = symbol(cudnn, "cudnnCreate");
    size_t (*version)(void) = symbol(cudnn, "cudnnGetVersion");
    void *handle;
    int status = create(&handle);
    if (status) {
        printf("cuDNN %zu, cudnnCreate %d\n", version(), status);
        show_mapped();
        return 1;
    }
    int (*allocate)(void **, size_t) = symbol(runtime, "cudaMalloc");
    int (*copy)(void *, const void *, size_t, int) = symbol(runtime, "cudaMemcpy");
    int (*new_tensor)(void **) = symbol(cudnn, "cudnnCreateTensorDescriptor");
    int (*new_filter)(void **) = symbol(cudnn, "cudnnCreateFilterDescriptor");
    int (*new_convolution)(void **) = symbol(cudnn, "cudnnCreateConvolutionDescriptor");
    int (*set_tensor)(void *, int, int, int, int, int, int) = symbol(cudnn, "cudnnSetTensor4dDescriptor");
    int (*set_filter)(void *, int, int, int, int, int, int) = symbol(cudnn, "cudnnSetFilter4dDescriptor");
    int (*set_convolution)(void *, int, int, int, int, int, int, int, int) =
        symbol(cudnn, "cudnnSetConvolution2dDescriptor");
    int (*forward)(void *, const void *, void *, const void *, void *, const void *, void *, int, void *, size_t,
                   const void *, void *, void *) = symbol(cudnn, "cudnnConvolutionForward");

    float x[C * SIDE * SIDE], w[K * C * R * R], y[K * SIDE * SIDE];
    srand(7);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)(rand() % 9 - 4);
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = (float)(rand() % 7 - 3);
    void *xd, *yd, *wd, *cd, *dx, *dy, *dw;
    status |= new_tensor(&xd) | new_tensor(&yd) | new_filter(&wd) | new_convolution(&cd);
    status |= set_tensor(xd, 0, 0, 1, C, SIDE, SIDE) | set_tensor(yd, 0, 0, 1, K, SIDE, SIDE);
    status |= set_filter(wd, 0, 0, K, C, R, R) | set_convolution(cd, 1, 1, 1, 1, 1, 1, 1, 0);
    status |= allocate(&dx, sizeof x) | allocate(&dy, sizeof y) | allocate(&dw, sizeof w);
    status |= copy(dx, x, sizeof x, 1) | copy(dw, w, sizeof w, 1);
    float one = 1, zero = 0;
    int convolved = forward(handle, &one, xd, dx, wd, dw, cd, 0, NULL, 0, &zero, yd, dy);
    status |= copy(y, dy, sizeof y, 2);
    double worst = 0;
    for (int k = 0; k < K; k++)
        for (int p = 0; p < SIDE; p++)
            for (int q = 0; q < SIDE; q++) {
                double sum = 0;
                for (int c = 0; c < C; c++)
                    for (int r = 0; r < R; r++)
                        for (int s = 0; s < R; s++) {
                            int i = p + r - 1, j = q + s - 1;
                            if (i >= 0 && j >= 0 && i < SIDE && j < SIDE)
                                sum += (double)x[(c * SIDE + i) * SIDE + j] * w[((k * C + c) * R + r) * R + s];
                        }
                double off = fabs(sum - y[(k * SIDE + p) * SIDE + q]);
                if (!(off <= worst))
                    worst = off;
            }
    printf("cuDNN %zu, set up %d, convolution %d, off by %g\n", version(), status, convolved, worst);
    show_mapped();
    return status || convolved || !(worst <= 1e-3);
}
