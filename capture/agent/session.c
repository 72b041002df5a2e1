#define _GNU_SOURCE
#include "session.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "counting.h"
#include "graph.h"
#include "hooks.h"
#include "launch.h"
#include "runtime.h"

#define EXPORT __attribute__((visibility("default")))

enum { WATCH_INTERVAL_MS = 20, CLOSE_PATIENCE_MS = 10000 };

_Atomic(struct capture_control*) g_control;
struct hip_table g_tables[MAX_COPIES];
int g_table_count;
uint8_t* g_data;
size_t g_data_bytes;

// Everything below is the session's; a hook takes no lock.
static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static int g_control_fd = -1, g_data_fd = -1;
static uintptr_t g_session_number;
enum { MAX_LISTS = 8 };
static char g_list_paths[MAX_LISTS][PATH_MAX];

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static int fail(char* error, size_t error_bytes, const char* what) {
    snprintf(error, error_bytes, "%s: %s", what, strerror(errno));
    return -1;
}

// Shared memory that can be opened through /proc/PID/fd, of fixed size (sealed: a reader gets no
// SIGBUS), with all pages present: copies into cold pages take three times as long.
static void* make_shared(const char* name, size_t bytes, int* fd) {
    // Not memfd_create(): glibc has it from 2.27 on only.
    *fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0) {
        return NULL;
    }
    void* memory = MAP_FAILED;
    if (ftruncate(*fd, (off_t)bytes) == 0 &&
        fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, *fd, 0);
    }
    if (memory == MAP_FAILED) {
        const int reason = errno;
        close(*fd);
        *fd = -1;
        errno = reason;
        return NULL;
    }
    madvise(memory, bytes, MADV_DONTFORK);
    return memory;
}

// A GPU copies into pinned memory at full speed, and into other memory through a buffer. What the
// runtime says to it does not matter: it works either way.
static void pin_data(bool is_pinned) {
    struct runtime_scope scope;
    if (g_data != NULL && g_table_count > 0 && runtime_enter(&g_tables[0], &scope)) {
        runtime_pin(&g_tables[0], g_data, g_data_bytes, is_pinned);
        runtime_leave(&g_tables[0], &scope);
    }
}

static void release_data(void) {
    if (g_data != NULL) {
        pin_data(false);
        munmap(g_data, g_data_bytes);
        close(g_data_fd);
        g_data = NULL;
        g_data_bytes = 0;
        g_data_fd = -1;
    }
}

// Takes the record from whoever may have it, for good. False: a launch is still being captured.
static bool close_record(struct capture_control* control) {
    for (int waited = 0; waited < CLOSE_PATIENCE_MS; ++waited) {
        uint32_t state = control_state_of(control);
        if (state == STATE_CLOSED ||
            (state != STATE_BUSY &&
             __atomic_compare_exchange_n(&control->state, &state, STATE_CLOSED, false,
                                         __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))) {
            return true;
        }
        sleep_ms(1);
    }
    return false;
}

// Number of slots that somebody else has hooked since: they stay as they are.
static int close_session(void) {
    const int foreign = hooks_remove();
    struct capture_control* control = atomic_load(&g_control);
    if (control != NULL && close_record(control)) {
        release_data();
    }
    graph_close();
    return foreign;
}

static void* watch(void* number) {
    for (;;) {
        sleep_ms(WATCH_INTERVAL_MS);
        pthread_mutex_lock(&g_lock);
        struct capture_control* control = atomic_load(&g_control);
        const bool is_mine = control != NULL && g_session_number == (uintptr_t)number;
        const bool is_open = is_mine && control_state_of(control) != STATE_CLOSED;
        const bool is_late =
            is_open && now_ns() > __atomic_load_n(&control->deadline_ns, __ATOMIC_RELAXED);
        if (is_late) {
            close_session();
        } else if (is_open && control_state_of(control) == STATE_COUNTING) {
            counting_collect(control);
        }
        pthread_mutex_unlock(&g_lock);
        if (!is_open || is_late) {
            return NULL;
        }
    }
}

static int start_watchdog(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals are for its threads
    const int result = pthread_create(&thread, &attributes, watch, (void*)g_session_number);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    errno = result;
    return result;
}

// The child has hooked slots but neither control block nor watchdog.
static void forget_in_child(void) {
    pthread_mutex_init(&g_lock, NULL);
    atomic_store(&g_control, NULL);
    hooks_remove();
    graph_drop();
    g_data = NULL;
    g_data_bytes = 0;
    if (g_control_fd >= 0) {
        close(g_control_fd);
        g_control_fd = -1;
    }
    if (g_data_fd >= 0) {
        close(g_data_fd);
        g_data_fd = -1;
    }
}

EXPORT int asmevo_capture_version(void) {
    return CONTROL_VERSION;
}

static int open_control(char* error, size_t error_bytes) {
    struct capture_control* control = atomic_load(&g_control);
    if (control == NULL) {
        control = make_shared("asmevo-capture", sizeof *control, &g_control_fd);
        if (control == NULL) {
            return fail(error, error_bytes, "shared memory cannot be made");
        }
        if (g_session_number == 0) {
            pthread_atfork(NULL, NULL, forget_in_child);
        }
    }
    memset(control, 0, sizeof *control);
    control->version = CONTROL_VERSION;
    control->bytes = sizeof *control;
    control->generation = 1;
    control->deadline_ns = now_ns() + 10000000000u;
    control->beat_ns = now_ns();
    control->takes_after = 1;
    control->every = 1;
    control->state = STATE_IDLE;
    atomic_store(&g_control, control);
    ++g_session_number;
    return start_watchdog() == 0 ? g_control_fd : fail(error, error_bytes, "no watchdog thread");
}

// Adds the table of one mapped copy, unless it is known. Returns -1 with one line in `error`.
static int add_table(const char* path, char* error, size_t error_bytes) {
    struct hip_table table;
    void* library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) {
        snprintf(error, error_bytes, "%s is not loaded", path);
        return -1;
    }
    if (hip_table_find(&table, library, error, error_bytes) != 0) {
        return -1;
    }
    for (int i = 0; i < g_table_count; ++i) {
        if (g_tables[i].slots == table.slots) {
            return 0;
        }
    }
    if (g_table_count == MAX_COPIES) {
        snprintf(error, error_bytes, "more than %d copies of libamdhip64 are loaded", MAX_COPIES);
        return -1;
    }
    g_tables[g_table_count++] = table;
    return 0;
}

// Opens a session on the mapped copies of libamdhip64.so at `paths`, one a line; nothing is hooked
// yet. Returns the control block's descriptor, or -1 with one line in `error`.
EXPORT int asmevo_capture_open(const char* paths, char* error, size_t error_bytes) {
    pthread_mutex_lock(&g_lock);
    int result = 0;
    struct capture_control* control = atomic_load(&g_control);
    if (control != NULL && now_ns() > control->deadline_ns) {
        close_session();  // whoever opened it is gone
    }
    if (control != NULL && control_state_of(control) != STATE_CLOSED) {
        snprintf(error, error_bytes, "another capture of this process is running");
        result = -1;
    }
    char path[4096];
    for (const char* at = paths; result == 0 && *at != '\0';) {
        const size_t length = strcspn(at, "\n");
        snprintf(path, sizeof path, "%.*s", (int)length, at);
        result = add_table(path, error, error_bytes);
        at += length + (at[length] == '\n');
    }
    if (result == 0) {
        result = open_control(error, error_bytes);
    }
    pthread_mutex_unlock(&g_lock);
    return result;
}

// Makes data memory of at least `bytes` in place of what there is, while no launch can be using it.
// Returns its descriptor, or -1.
EXPORT int asmevo_capture_reserve(uint64_t bytes, char* error, size_t error_bytes) {
    pthread_mutex_lock(&g_lock);
    int result = -1;
    struct capture_control* control = atomic_load(&g_control);
    const enum control_state state = control == NULL ? STATE_CLOSED : control_state_of(control);
    if (state != STATE_IDLE && state != STATE_READY) {
        snprintf(error, error_bytes, "the capture has ended");
    } else {
        release_data();
        g_data = make_shared("asmevo-data", bytes, &g_data_fd);
        g_data_bytes = g_data == NULL ? 0 : bytes;
        pin_data(true);
        result =
            g_data == NULL ? fail(error, error_bytes, "shared memory cannot be made") : g_data_fd;
    }
    pthread_mutex_unlock(&g_lock);
    return result;
}

// Puts the hooks in. Returns how many, or -1.
EXPORT int asmevo_capture_hook(char* error, size_t error_bytes) {
    pthread_mutex_lock(&g_lock);
    const int result = hooks_insert();
    pthread_mutex_unlock(&g_lock);
    if (result <= 0) {
        snprintf(error, error_bytes, "no launch function can be hooked");
        return -1;
    }
    return result;
}

// Drops what is known about functions: the globs have changed.
EXPORT int asmevo_capture_forget(void) {
    launch_forget_functions();
    return 0;
}

struct found_lists {
    uint64_t* addresses;
    int count, room;
};

static int look_for_list(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    struct found_lists* found = data;
    const char* slash = strrchr(info->dlpi_name, '/');
    const char* base = slash != NULL ? slash + 1 : info->dlpi_name;
    if (found->count < found->room && (strncmp(base, "libamdhip64.so", 14) == 0 ||
                                       strncmp(base, "libhsa-runtime64.so", 19) == 0)) {
        snprintf(g_list_paths[found->count++], PATH_MAX, "%s", info->dlpi_name);
    }
    return 0;
}

// Addresses of the runtime's lists of loaded code objects (`_amdgpu_r_debug`): ROCr's, or the
// emulated device's, one for each mapped copy. Returns how many.
EXPORT int asmevo_capture_find_debug_lists(uint64_t* addresses, int room) {
    struct found_lists found = {addresses, 0, room < MAX_LISTS ? room : MAX_LISTS};
    int count = 0;
    pthread_mutex_lock(&g_lock);
    dl_iterate_phdr(look_for_list, &found);
    for (int i = 0; i < found.count; ++i) {
        void* library = dlopen(g_list_paths[i], RTLD_LAZY | RTLD_NOLOAD);
        void* list = library == NULL ? NULL : dlsym(library, "_amdgpu_r_debug");
        bool is_known = list == NULL;  // a library also answers for those that it needs
        for (int j = 0; j < count; ++j) {
            is_known |= addresses[j] == (uint64_t)list;
        }
        if (!is_known) {
            addresses[count++] = (uint64_t)list;
        }
    }
    pthread_mutex_unlock(&g_lock);
    return count;
}

// Takes the hooks out and ends the session. Returns how many slots could not be restored because
// somebody else has hooked them since.
EXPORT int asmevo_capture_close(void) {
    pthread_mutex_lock(&g_lock);
    const int foreign = close_session();
    pthread_mutex_unlock(&g_lock);
    return foreign;
}
