// Notes which pages of memory are read and written, by taking away access and looking at faults.
//
// The device's code runs on the host here, so that a kernel's access to a page is a fault of this
// process: it is noted, the page gets what the access needs, and the access is repeated.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_RANGES = 8192, PAGE_BYTES = 4096, PAGE_READ = 1, PAGE_WRITTEN = 2, ERROR_WRITE = 2 };

static struct range {
    uintptr_t start, end;
    uint8_t* marks;  // a byte a page
} g_ranges[MAX_RANGES];
static int g_count;
static struct sigaction g_before;

static struct range* find(uintptr_t address) {
    for (int i = 0; i < g_count; ++i) {
        if (address - g_ranges[i].start < g_ranges[i].end - g_ranges[i].start) {
            return &g_ranges[i];
        }
    }
    return NULL;
}

// The kernel allows a process so many mappings: beyond that, a whole range counts as touched.
static bool open_range(struct range* range) {
    for (uintptr_t at = range->start; at < range->end; at += PAGE_BYTES) {
        __atomic_fetch_or(&range->marks[(at - range->start) / PAGE_BYTES], PAGE_READ | PAGE_WRITTEN,
                          __ATOMIC_RELAXED);
    }
    return mprotect((void*)range->start, range->end - range->start, PROT_READ | PROT_WRITE) == 0;
}

static void on_fault(int number, siginfo_t* info, void* context) {
    const uintptr_t address = (uintptr_t)info->si_addr;
    struct range* range = find(address);
    if (range == NULL) {
        sigaction(number, &g_before, NULL);  // not ours: it comes again
        return;
    }
    const int error = errno;
    const greg_t code = ((ucontext_t*)context)->uc_mcontext.gregs[REG_ERR];
    const bool is_write = (code & ERROR_WRITE) != 0;
    void* page = (void*)(address & ~(uintptr_t)(PAGE_BYTES - 1));
    uint8_t* mark = &range->marks[((uintptr_t)page - range->start) / PAGE_BYTES];
    const uint8_t marks =
        __atomic_or_fetch(mark, is_write ? PAGE_WRITTEN : PAGE_READ, __ATOMIC_RELAXED);
    const int access = marks & PAGE_WRITTEN ? PROT_READ | PROT_WRITE : PROT_READ;
    if (mprotect(page, PAGE_BYTES, access) != 0 && !open_range(range)) {
        sigaction(number, &g_before, NULL);
    }
    errno = error;
}

// Watches whole pages from now until `page_watch_stop`; `marks` has a byte for each. Returns 0.
EXPORT int page_watch_add(uintptr_t start, size_t bytes, uint8_t* marks) {
    if (g_count == MAX_RANGES || start % PAGE_BYTES != 0 || bytes % PAGE_BYTES != 0) {
        return -1;
    }
    g_ranges[g_count++] = (struct range){start, start + bytes, marks};
    return 0;
}

EXPORT int page_watch_start(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSEGV, &action, &g_before) != 0) {
        return -1;
    }
    for (int i = 0; i < g_count; ++i) {
        if (mprotect((void*)g_ranges[i].start, g_ranges[i].end - g_ranges[i].start, PROT_NONE) !=
            0) {
            return -1;
        }
    }
    return 0;
}

EXPORT int page_watch_stop(void) {
    int result = 0;
    for (int i = 0; i < g_count; ++i) {
        result |= mprotect((void*)g_ranges[i].start, g_ranges[i].end - g_ranges[i].start,
                           PROT_READ | PROT_WRITE);
    }
    sigaction(SIGSEGV, &g_before, NULL);
    g_count = 0;
    return result;
}
