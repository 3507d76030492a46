// The ends of benches/heard.sh, and what it compares cudarun with.
//   heard write FILE N          writes the first N bytes of FILE to standard error
//   heard terminal COMMAND…     runs it on a pseudo-terminal, and reads all that it writes
//   heard copy COMMAND…         hands its standard error on through a pseudo-terminal in raw mode, and does nothing else
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static char piece[128 << 10];

static void put(const char *from, size_t length)
{
    while (length > 0) {
        ssize_t written = write(2, from, length > sizeof piece ? sizeof piece : length);
        if (written <= 0)
            _exit(3);
        from += written;
        length -= written;
    }
}

int main(int count, char **words)
{
    if (count < 3)
        return 2;
    if (!strcmp(words[1], "write")) {
        size_t length = strtoul(words[3], NULL, 10);
        char *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, open(words[2], O_RDONLY), 0);
        if (bytes == MAP_FAILED)
            return 3;
        put(bytes, length);
        return 0;
    }
    int is_copy = !strcmp(words[1], "copy"), master, end, status;
    struct termios raw;
    memset(&raw, 0, sizeof raw);
    cfmakeraw(&raw);
    if (openpty(&master, &end, NULL, &raw, NULL))
        return 3;
    pid_t child = fork();
    if (child == 0) {
        close(master);
        for (int stream = is_copy ? 2 : 0; stream < 3; stream++)
            dup2(end, stream);
        close(end);
        execvp(words[2], words + 2);
        _exit(127);
    }
    close(end);
    ssize_t length;
    while ((length = read(master, piece, sizeof piece)) > 0)
        if (is_copy)
            put(piece, length);
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
