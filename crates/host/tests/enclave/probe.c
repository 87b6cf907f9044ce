/* Tries what a program in an enclave may not do, and writes the error of each to its standard input. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static char result(long value) { return value < 0 ? (char)errno : 0; }

int main(void) {
    char results[8] = {0};
    results[0] = result(open("/dev/null", O_RDONLY));
    results[1] = result(socket(AF_INET, SOCK_STREAM, 0));
    results[2] = result(socket(AF_UNIX, SOCK_STREAM, 0));
    results[3] = result(kill(getpid(), 0));
    pid_t child = fork();
    if (child == 0) _exit(0);
    results[4] = result(child);
    void *memory = mmap(0, 1L << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    results[5] = memory == MAP_FAILED ? (char)errno : 0;
    char *none[] = {0};
    /* Neither by a path nor by what was open before it began. */
    results[6] = result(execve("/does/not/exist", none, none));
    results[7] = result(dup2(0, 9));
    return write(0, results, sizeof results) == sizeof results ? 0 : 1;
}
