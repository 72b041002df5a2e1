#define _GNU_SOURCE
#include "swap_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static char g_folder[3800];
static int g_fd = -1;
static pid_t g_pid;

static void lock(void) {
    pthread_mutex_lock(&g_lock);
}

static void unlock(void) {
    pthread_mutex_unlock(&g_lock);
}

void swap_log_open(const char* folder) {
    snprintf(g_folder, sizeof g_folder, "%s", folder);
    pthread_atfork(lock, unlock, unlock);  // a child must not inherit a lock nobody opens
}

static int open_log(pid_t pid) {
    char path[4096];
    const char* named = getenv("ASMEVO_SWAP_LOG");
    if (named != NULL && named[0] != '\0') {
        snprintf(path, sizeof path, "%s", named);
    } else {
        snprintf(path, sizeof path, "%s/log", g_folder);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "%s/log/%d.log", g_folder, (int)pid);
    }
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

static size_t format_prefix(char* line, size_t bytes, pid_t pid) {
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    const size_t at = strftime(line, bytes, "%Y-%m-%dT%H:%M:%S", &utc);
    return at +
           (size_t)snprintf(line + at, bytes - at, ".%03ldZ %d ", now.tv_nsec / 1000000, (int)pid);
}

void swap_log(const char* format, ...) {
    char line[2048];
    const pid_t pid = getpid();
    size_t length = format_prefix(line, sizeof line - 1, pid);
    va_list arguments;
    va_start(arguments, format);
    const int wrote = vsnprintf(line + length, sizeof line - 1 - length, format, arguments);
    va_end(arguments);
    length += wrote < 0 ? 0 : (size_t)wrote;
    length = length < sizeof line - 2 ? length : sizeof line - 2;
    line[length++] = '\n';

    const int saved_errno = errno;
    lock();
    if (g_pid != pid) {
        if (g_fd >= 0) {
            close(g_fd);
        }
        g_fd = open_log(pid);
        g_pid = pid;
    }
    // One write a line: lines of several processes in one file stay whole. Where no log can be
    // written, the server's own error output is better than silence.
    if (write(g_fd >= 0 ? g_fd : STDERR_FILENO, line, length) < 0) {
        errno = 0;
    }
    unlock();
    errno = saved_errno;
}
