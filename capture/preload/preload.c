// Preloaded by `asmevo capture run`: hooks a program before its first launch.
//
// When libamdhip64 gets into the process, this connects to the socket that ASMEVO_CAPTURE_SOCKET
// names and obeys it until it says `go`; only then does the program go on. Later commands are
// served by a thread. When the socket is closed, the session ends, as it does when nobody gives a
// sign of life (session.c). Programs that load no HIP library are left alone, and so is
// everything if nobody listens.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "library_watch.h"

enum { LINE_BYTES = 8192, ERROR_BYTES = 512, START_PATIENCE_S = 20 };

static int g_socket = -1;

static struct {
    int (*version)(void);
    int (*open)(const char*, char*, size_t);
    int (*reserve)(uint64_t, char*, size_t);
    int (*hook)(char*, size_t);
    int (*forget)(void);
    int (*close)(void);
    int (*find_debug_lists)(uint64_t*, int);
} g_capture;

static bool load_capture(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return false;
    }
    *(void**)&g_capture.version = dlsym(library, "asmevo_capture_version");
    *(void**)&g_capture.open = dlsym(library, "asmevo_capture_open");
    *(void**)&g_capture.reserve = dlsym(library, "asmevo_capture_reserve");
    *(void**)&g_capture.hook = dlsym(library, "asmevo_capture_hook");
    *(void**)&g_capture.forget = dlsym(library, "asmevo_capture_forget");
    *(void**)&g_capture.close = dlsym(library, "asmevo_capture_close");
    *(void**)&g_capture.find_debug_lists = dlsym(library, "asmevo_capture_find_debug_lists");
    return g_capture.version != NULL && g_capture.open != NULL && g_capture.reserve != NULL &&
           g_capture.hook != NULL && g_capture.forget != NULL && g_capture.close != NULL &&
           g_capture.find_debug_lists != NULL;
}

// The name is one of Linux's abstract namespace.
static int connect_to(const char* name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = strlen(name);
    if (length == 0 || length + 1 > sizeof address.sun_path) {
        return -1;
    }
    memcpy(address.sun_path + 1, name, length);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    if (fd >= 0 && connect(fd, (struct sockaddr*)&address, size) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool send_line(const char* text) {
    char line[LINE_BYTES + 1];
    const int length = snprintf(line, sizeof line, "%s\n", text);
    return send(g_socket, line, (size_t)length, MSG_NOSIGNAL) == length;
}

// False at the end of the connection, or when its patience is over.
static bool receive_line(char* line) {
    for (size_t at = 0; at < LINE_BYTES;) {
        const ssize_t got = recv(g_socket, line + at, 1, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        if (line[at] == '\n') {
            line[at] = '\0';
            return true;
        }
        ++at;
    }
    return false;
}

static void find_lists(char* reply) {
    uint64_t addresses[8];
    const int count = g_capture.find_debug_lists(addresses, 8);
    int at = snprintf(reply, LINE_BYTES, "ok");
    for (int i = 0; i < count; ++i) {
        at += snprintf(reply + at, LINE_BYTES - (size_t)at, " %#llx",
                       (unsigned long long)addresses[i]);
    }
}

// Serves one command; false for `go` and for the end of the connection.
static bool serve_command(void) {
    char line[LINE_BYTES], reply[LINE_BYTES], error[ERROR_BYTES] = "unknown command";
    if (!receive_line(line)) {
        return false;
    }
    char* argument = strchr(line, ' ');
    if (argument != NULL) {
        *argument++ = '\0';
    }
    int result = -1;
    bool goes_on = true;
    if (strcmp(line, "open") == 0 && argument != NULL) {
        for (char* at = argument; (at = strchr(at, '\t')) != NULL;) {
            *at = '\n';  // paths are one a line there; a line here is a command
        }
        result = g_capture.open(argument, error, sizeof error);
    } else if (strcmp(line, "reserve") == 0 && argument != NULL) {
        result = g_capture.reserve(strtoull(argument, NULL, 10), error, sizeof error);
    } else if (strcmp(line, "hook") == 0) {
        result = g_capture.hook(error, sizeof error);
    } else if (strcmp(line, "forget") == 0) {
        result = g_capture.forget();
    } else if (strcmp(line, "close") == 0) {
        result = g_capture.close();
    } else if (strcmp(line, "lists") == 0) {
        find_lists(reply);
        return send_line(reply);
    } else if (strcmp(line, "go") == 0) {
        result = 0;
        goes_on = false;
    }
    if (result >= 0) {
        snprintf(reply, sizeof reply, "ok %d", result);
    } else {
        snprintf(reply, sizeof reply, "error %s", error);
    }
    return send_line(reply) && goes_on;
}

static void* serve(void* unused) {
    (void)unused;
    while (serve_command()) {
    }
    g_capture.close();
    close(g_socket);
    return NULL;
}

static void start_server(void) {
    pthread_t thread;
    sigset_t all, before;
    setsockopt(g_socket, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0}, sizeof(struct timeval));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals are for its threads
    if (pthread_create(&thread, NULL, serve, NULL) == 0) {
        pthread_detach(thread);
    } else {
        g_capture.close();
        close(g_socket);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// All of the beginning happens on the thread that loads the library: it may hold the loader's
// lock, which another thread would wait for.
static void on_library(void* library) {
    (void)library;
    const char* name = getenv("ASMEVO_CAPTURE_SOCKET");
    const char* path = getenv("ASMEVO_CAPTURE_LIBRARY");
    if (name == NULL || path == NULL || !load_capture(path) || (g_socket = connect_to(name)) < 0) {
        return;
    }
    setsockopt(g_socket, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = START_PATIENCE_S},
               sizeof(struct timeval));
    char hello[64];
    snprintf(hello, sizeof hello, "hello %d %d", (int)getpid(), g_capture.version());
    if (send_line(hello)) {
        while (serve_command()) {
        }
    }
    start_server();
}

__attribute__((constructor)) static void start(void) {
    if (getenv("ASMEVO_CAPTURE_SOCKET") != NULL) {
        library_watch_start(on_library);
    }
}
