/* Times how long a command takes from posix_spawn to its end: spawn ROUNDS COMMAND [-- COMMAND]...
   Each word list between `--`, or the value of SEPARATOR, is one command, and may begin with NAME=VALUE for its
   environment. The commands take turns, so that all of them meet the same noise, and every round starts with another
   one; before each round, the shell runs BEFORE. The output of the commands is discarded. The
   first rounds do not count. Prints a line each: median and quartiles in microseconds, the most memory that a run
   had, in kilobytes, and the median of the processor time, in microseconds. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COMMANDS = 16 };

extern char **environ;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e6 + at.tv_nsec / 1e3;
}

/* Returns the variables of one command, then the shared ones: the first value of a variable counts. */
static char **environment(char ***words)
{
    size_t own = 0, shared = 0;
    while ((*words)[own] && strchr((*words)[own], '='))
        own++;
    while (environ[shared])
        shared++;
    char **all = calloc(own + shared + 1, sizeof *all);
    memcpy(all, *words, own * sizeof *all);
    memcpy(all + own, environ, shared * sizeof *all);
    *words += own;
    return all;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    char **commands[COMMANDS], **environments[COMMANDS];
    int count = 0, rounds = argc > 2 ? atoi(argv[1]) : 0;
    if (rounds < 1) {
        fprintf(stderr, "usage: spawn ROUNDS COMMAND [-- COMMAND]...\n");
        return 2;
    }
    const char *separator = getenv("SEPARATOR") ? getenv("SEPARATOR") : "--";
    for (int i = 2; i < argc && count < COMMANDS; i++) {
        commands[count++] = &argv[i];
        while (i < argc && strcmp(argv[i], separator))
            i++;
        if (i < argc)
            argv[i] = NULL;
    }
    for (int which = 0; which < count; which++)
        environments[which] = environment(&commands[which]);
    const char *before = getenv("BEFORE");
    FILE *results = fdopen(fcntl(1, F_DUPFD_CLOEXEC, 3), "w");
    if (!results || dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 1) != 1) {
        perror("/dev/null");
        return 1;
    }
    double *times = calloc((size_t)count * rounds, sizeof *times);
    double *busy = calloc((size_t)count * rounds, sizeof *busy);
    long memory[COMMANDS] = {0};
    for (int round = rounds < 100 ? -1 : -3; round < rounds; round++) {
        if (before && system(before)) {
            fprintf(stderr, "BEFORE failed: %s\n", before);
            return 1;
        }
        for (int turn = 0; turn < count; turn++) {
            int which = (turn + round + 3) % count, status;
            pid_t child;
            struct rusage usage;
            double start = now();
            if (posix_spawnp(&child, commands[which][0], NULL, NULL, commands[which], environments[which])) {
                perror(commands[which][0]);
                return 1;
            }
            wait4(child, &status, 0, &usage);
            double took = now() - start;
            if (status) {
                fprintf(stderr, "%s ended with %#x\n", commands[which][0], status);
                return 1;
            }
            if (usage.ru_maxrss > memory[which])
                memory[which] = usage.ru_maxrss;
            if (round < 0)
                continue;
            times[which * rounds + round] = took;
            busy[which * rounds + round] = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
                                           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
        }
    }
    for (int which = 0; which < count; which++) {
        double *sorted = times + which * rounds;
        double *processor = busy + which * rounds;
        qsort(sorted, rounds, sizeof *sorted, ascending);
        qsort(processor, rounds, sizeof *processor, ascending);
        fprintf(results, "%.1f\t%.1f\t%.1f\t%ld\t%.1f\n", sorted[rounds / 2], sorted[rounds / 4],
                sorted[rounds * 3 / 4], memory[which], processor[rounds / 2]);
    }
    return 0;
}
