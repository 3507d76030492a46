/* Times how long a command takes from posix_spawn to its end: spawn ROUNDS COMMAND [-- COMMAND]...
   Each word list between `--` is one command. The commands take turns, so that all of them meet the same
   noise, and every round starts with another one. Prints a line each: median and quartiles in microseconds. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum { COMMANDS = 16 };

extern char **environ;

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e6 + at.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    char **commands[COMMANDS];
    int count = 0, rounds = argc > 2 ? atoi(argv[1]) : 0;
    if (rounds < 1) {
        fprintf(stderr, "usage: spawn ROUNDS COMMAND [-- COMMAND]...\n");
        return 2;
    }
    for (int i = 2; i < argc && count < COMMANDS; i++) {
        commands[count++] = &argv[i];
        while (i < argc && strcmp(argv[i], "--"))
            i++;
        if (i < argc)
            argv[i] = NULL;
    }
    double *times = calloc((size_t)count * rounds, sizeof *times);
    for (int round = -3; round < rounds; round++)
        for (int turn = 0; turn < count; turn++) {
            int which = (turn + round + 3) % count, status;
            pid_t child;
            double start = now();
            if (posix_spawnp(&child, commands[which][0], NULL, NULL, commands[which], environ)) {
                perror(commands[which][0]);
                return 1;
            }
            waitpid(child, &status, 0);
            if (status) {
                fprintf(stderr, "%s ended with %#x\n", commands[which][0], status);
                return 1;
            }
            if (round >= 0)
                times[which * rounds + round] = now() - start;
        }
    for (int which = 0; which < count; which++) {
        double *sorted = times + which * rounds;
        qsort(sorted, rounds, sizeof *sorted, ascending);
        printf("%.1f\t%.1f\t%.1f\n", sorted[rounds / 2], sorted[rounds / 4], sorted[rounds * 3 / 4]);
    }
    return 0;
}
