//! A driver, a CUDA runtime and a cuDNN built here, whose behaviour the variable STAND_IN sets: words apart
//! by blanks, some with a number after a colon. They compute on the CPU.

use std::path::Path;

use super::Workshop;

const WORDS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* Whether a word is said, and the number after its colon. */
static int said(const char *word, int *number)
{
    const char *text = getenv("STAND_IN");
    size_t length = strlen(word);
    for (const char *at = text; at && (at = strstr(at, word)); at += length)
        if ((at == text || at[-1] == ' ') && (at[length] == 0 || at[length] == ' ' || at[length] == ':')) {
            if (number && at[length] == ':')
                *number = atoi(at + length + 1);
            return 1;
        }
    return 0;
}
static int is(const char *word) { return said(word, 0); }
/* The number that a word is said with, or 0. */
static int number_of(const char *word) { int number = 0; said(word, &number); return number; }
/* What a variable names as the installation that misbehaves; without it, all do. */
__attribute__((unused)) static int meant(void)
{
    Dl_info own;
    const char *only = getenv("STAND_IN_ONLY");
    return !only || (dladdr(&meant, &own) && strstr(realpath(own.dli_fname, 0), only));
}
"#;

/// A driver whose device memory is the host's.
const DRIVER: &str = r#"
__attribute__((used)) static const char stamp[] = "libnvidia-pkcs11-openssl3.so.580.95.05";
static int current = -1;
static int on(int device, const char *word) { int gpu = -1; return said(word, &gpu) && (gpu < 0 || gpu == device); }
static int only(const char *word) { return on(current, word); }
int cuInit(unsigned flags) { return number_of("cuInit"); }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuGetErrorName(int code, const char **name)
{
    *name = code == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : "CUDA_ERROR_OTHER";
    return 0;
}
int cuDeviceGetCount(int *count) { *count = is("gpus") ? number_of("gpus") : 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "Stand-in", size); return 0; }
int cuDeviceGetPCIBusId(char *bus, int size, int device) { snprintf(bus, size, "0000:%02d:00.0", device); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int gpu = -1;
    *value = attribute == 75 ? 9 : 0;
    if (attribute == 20 && said("prohibited", &gpu) && (gpu < 0 || gpu == device)) *value = 2;
    if (attribute == 20 && is("exclusive")) *value = 3;
    return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 80UL << 30; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = (void *)(long)(device + 1);
    return on(device, "full") ? 2 : is("exclusive") && !is("retain") ? 46 : number_of("retain");
}
int cuCtxSetCurrent(void *context) { current = (int)(long)context - 1; return 0; }
int cuCtxSynchronize(void) { return number_of("synchronize"); }
int cuMemGetInfo_v2(size_t *free, size_t *total) { if (current < 0) return 201; *free = is("little") || only("full") || only("out-of-memory") ? 64 << 20 : 70UL << 30; *total = 80UL << 30; return 0; }
int cuMemAlloc_v2(unsigned long long *address, size_t size)
{
    *address = (unsigned long long)malloc(size);
    return only("out-of-memory") ? 2 : 0;
}
int cuMemFree_v2(unsigned long long address) { free((void *)address); return 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t size) { memcpy((void *)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size) { memcpy(to, (void *)from, size); return 0; }
"#;

/// A cuDNN that convolves on the CPU, and misbehaves as it is told. `VERSION` is what it answers.
const CUDNN: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#define STRING(x) #x
#define TEXT(x) STRING(x)
__attribute__((used)) static const char stamp[] = "cudnn_version_" TEXT(NAME) "_0_0_";
size_t cudnnGetVersion(void) { return VERSION; }
size_t cudnnGetCudartVersion(void) { return 13000; }
const char *cudnnGetErrorString(int status) { return status == 1001 ? "CUDNN_STATUS_NOT_INITIALIZED" : "CUDNN_STATUS_OTHER"; }
#if VERSION >= 90000
void cudnnGetLastErrorString(char *text, size_t size) { snprintf(text, size, "a reason"); }
int cudnnGraphVersionCheck(void) { return number_of("cudnnGraphVersionCheck"); }
#else
int cudnnCnnInferVersionCheck(void) { return number_of("cudnnCnnInferVersionCheck"); }
#endif
/* So that a test can count proofs, and see when the last one ended. */
static void log_line(const char *what, unsigned number)
{
    const char *file = getenv("STAND_IN_LOG");
    int log = file ? open(file, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (log >= 0) {
        char line[64];
        int length = snprintf(line, sizeof line, "%s %u\n", what, number);
        if (write(log, line, length) != length) abort();
        close(log);
    }
}
static void count(const char *what) { log_line(what, getpid()); }
int cudnnCreate(void **handle)
{
    *handle = (void *)1;
    count("created");
    if (!meant())
        return 0;
    if (getenv("STAND_IN_SAYS"))
        fprintf(stderr, "\n%s\n\n", getenv("STAND_IN_SAYS"));
    if (is("abort"))
        abort();
    if (is("kill"))
        raise(SIGKILL);
    if (is("status"))
        _exit(number_of("status"));
    if (is("crash"))
        *(volatile int *)0 = 1;
    if (is("bus")) {
        /* What lies beyond the end of a file. */
        FILE *file = tmpfile();
        if (ftruncate(fileno(file), 4096)) abort();
        volatile char *mapped = mmap(0, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
        if (ftruncate(fileno(file), 0)) abort();
        (void)*mapped;
    }
    if (is("hang"))
        for (;;)
            pause();
    if (is("leave"))
        _exit(0);
    if (is("leave-group")) {
        setpgid(0, getpgid(getppid()));
        for (;;)
            pause();
    }
    if (is("slow"))
        usleep(1000 * number_of("slow"));
    if (is("fork"))
        if (!fork())
            for (;;)
                pause();
    if (is("noise"))
        for (int i = 0; i < 100000; i++)
            printf("\"passed\"\n\"passed\" noise noise noise noise\n"), fflush(stdout);
    if (is("flood")) {
        static char block[1 << 20];
        memset(block, 0xfe, sizeof block);
        for (int i = 0; i < 2048; i++)
            if (write(1, block, sizeof block) < 0) break;
    }
    if (is("close"))
        for (int i = 3; i < 4096; i++)
            close(i);
    if (is("chdir") && (chdir("/") || chdir("proc")))
        abort();
    if (is("lock") && !fork()) {
        /* Takes what looks like a lock, and dies with it. */
        int lock = open(getenv("STAND_IN_LOCK"), O_RDWR | O_CREAT, 0600);
        flock(lock, LOCK_EX);
        raise(SIGKILL);
    }
    if (is("foreign") && !dlopen(getenv("FOREIGN"), RTLD_NOW))
        return 1;
    return number_of("cudnnCreate");
}
__attribute__((destructor)) static void end(void) { if (is("crash-late")) abort(); }
int cudnnDestroy(void *handle)
{
    if (is("destroy-crashes"))
        *(volatile int *)0 = 1;
    return number_of("cudnnDestroy");
}
/* A descriptor is its numbers. */
static int new(void **d) { *d = calloc(8, sizeof(int)); return 0; }
int cudnnCreateTensorDescriptor(void **d) { new(d); return meant() ? number_of("cudnnCreateTensorDescriptor") : 0; }
int cudnnCreateFilterDescriptor(void **d) { return new(d); }
int cudnnCreateConvolutionDescriptor(void **d) { return new(d); }
int cudnnDestroyTensorDescriptor(void *d) { free(d); return 0; }
int cudnnDestroyFilterDescriptor(void *d) { free(d); return 0; }
int cudnnDestroyConvolutionDescriptor(void *d) { free(d); return 0; }
int cudnnSetTensor4dDescriptor(int *d, int format, int type, int n, int c, int h, int w)
{
    d[0] = n, d[1] = c, d[2] = h, d[3] = w, d[4] = type;
    return 0;
}
int cudnnSetFilter4dDescriptor(int *d, int type, int format, int k, int c, int h, int w)
{
    d[0] = k, d[1] = c, d[2] = h, d[3] = w;
    return 0;
}
int cudnnSetConvolution2dDescriptor(int *d, int a, int b, int c, int e, int f, int g, int m, int t) { d[0] = a; return 0; }
int cudnnGetConvolutionForwardWorkspaceSize(void *h, void *x, void *w, void *c, void *y, int a, size_t *s) { *s = 64; return 0; }
int cudnnConvolutionForward(void *handle, const float *alpha, int *xd, const float *x, int *wd, const float *w, int *cd, int a,
                            void *ws, size_t size, const float *beta, int *yd, float *y)
{
    int wrong;
    for (int n = 0; n < yd[0]; n++)
        for (int k = 0; k < yd[1]; k++)
            for (int p = 0; p < yd[2]; p++)
                for (int q = 0; q < yd[3]; q++) {
                    float sum = 0;
                    for (int c = 0; c < wd[1]; c++)
                        for (int r = 0; r < wd[2]; r++)
                            for (int s = 0; s < wd[3]; s++) {
                                int i = p + r - cd[0], j = q + s - cd[0];
                                if (i >= 0 && j >= 0 && i < xd[2] && j < xd[3])
                                    sum += x[((n * xd[1] + c) * xd[2] + i) * xd[3] + j]
                                         * w[((k * wd[1] + c) * wd[2] + r) * wd[3] + s];
                            }
                    y[((n * yd[1] + k) * yd[2] + p) * yd[3] + q] = sum;
                }
    unsigned hash = 0;
    for (int i = 0; i < xd[0] * xd[1] * xd[2] * xd[3]; i++)
        hash = hash * 31 + (int)x[i];
    count("convolved");
    log_line("numbers", hash);
    if (!meant())
        return 0;
    if (is("wrong"))
        y[100] += 0.5f;
    if (said("bit", &wrong)) {
        unsigned bits;
        for (int at = 100; ; at++)
            if (y[at]) {
                memcpy(&bits, y + at, 4), bits ^= 1u << wrong, memcpy(y + at, &bits, 4);
                break;
            }
    }
    if (is("nan"))
        y[7] = 0.0f / 0.0f;
    return number_of("cudnnConvolutionForward");
}
"#;

/// A cuBLAS that multiplies matrices on the CPU.
const CUBLAS: &str = r#"
#ifndef OLD
int cublasSetMathMode(void *handle, int mode) { return 0; }
#endif
int cublasLtCreate(void **handle) { *handle = (void *)1; return 0; }
int cublasLtDestroy(void *handle) { return 0; }
int cublasCreate_v2(void **handle) { *handle = (void *)1; return 0; }
int cublasDestroy_v2(void *handle) { return 0; }
int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
                   const float *b, int ldb, const float *beta, float *c, int ldc)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int l = 0; l < k; l++)
                sum += a[l * lda + i] * b[j * ldb + l];
            c[j * ldc + i] = sum;
        }
    if (!meant())
        return 0;
    if (is("wrong-product"))
        c[5] += 1;
    return number_of("cublasSgemm");
}
"#;

/// Builds `libcuda.so.1` into a directory of the workshop.
pub fn driver(workshop: &Workshop, directory: &str) {
    lacking_driver(workshop, directory, "nothing");
}

/// A driver without a function.
pub fn lacking_driver(workshop: &Workshop, directory: &str, function: &str) {
    workshop.library(
        &format!("{directory}/libcuda.so.1"),
        "libcuda.so.1",
        &format!("{WORDS}{DRIVER}"),
        &[&format!("-D{function}=another_name")],
    );
}

/// A cuDNN 9.19.0 without a function.
pub fn lacking_cudnn(workshop: &Workshop, directory: &str, function: &str) {
    workshop.library(
        &format!("{directory}/libcudnn.so.9"),
        "libcudnn.so.9",
        &format!("#define VERSION 91900\n#define NAME 9_19\n{WORDS}{CUDNN}"),
        &[&format!("-D{function}=another_name")],
    );
}

/// Builds a cuDNN 9.19.0 or 8.9.7, every file of it, into a directory of the workshop. The main library has
/// all the code; the others are there to be complete.
pub fn cudnn(workshop: &Workshop, directory: &str, major: u32) {
    // A directory of this name gets a cuDNN that is linked against a library elsewhere, which is not
    // NVIDIA's.
    let extra = workshop.path("extra/libextra.so.1").display().to_string();
    let flags: &[&str] = if directory.ends_with("-linked") {
        workshop.library("extra/libextra.so.1", "libextra.so.1", "int extra;", &[]);
        &["-Wl,--no-as-needed", &extra]
    } else {
        &[]
    };
    let (version, name) = if major == 9 {
        (91900, "9_19")
    } else {
        (8907, "8_9")
    };
    let source = format!("#define VERSION {version}\n#define NAME {name}\n{WORDS}{CUDNN}");
    let main = format!("libcudnn.so.{major}");
    workshop.library(&format!("{directory}/{main}"), &main, &source, flags);
}

/// Builds `libcublas.so` of a major version into a directory of the workshop.
pub fn cublas(workshop: &Workshop, directory: &str, major: u32) {
    let soname = format!("libcublas.so.{major}");
    let source = format!("{WORDS}{CUBLAS}");
    let flags: &[&str] = if major < 9 { &["-DOLD"] } else { &[] };
    workshop.library(&format!("{directory}/{soname}"), &soname, &source, flags);
}

/// Builds the other files that a cuDNN 9.19.0 must come with: they say their version and for which CUDA they are, as the
/// directory's name has it.
pub fn sublibraries(workshop: &Workshop, directory: &str) {
    let cuda = if directory.ends_with("-cuda12") {
        12000
    } else {
        13000
    };
    let stems = [
        "graph",
        "ops",
        "cnn",
        "adv",
        "engines_precompiled",
        "engines_runtime_compiled",
        "heuristic",
    ];
    for stem in stems {
        let soname = format!("libcudnn_{stem}.so.9");
        let source = format!(
            "__attribute__((used)) const char stamp[] = \"cudnn_version_9_19_0_56_0_\";\n\
            unsigned cudnnGetCudartVersion(void) {{ return {cuda}; }}"
        );
        workshop.library(&format!("{directory}/{soname}"), &soname, &source, &[]);
    }
}

/// The lines that the stand-ins have written of a kind.
pub fn counted(log: &Path, what: &str) -> usize {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .filter(|line| line.split(' ').next() == Some(what))
        .count()
}
