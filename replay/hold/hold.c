// Reserves the addresses of a replay before anything else of the process can take them: preloaded into a replay worker,
// where it runs before Python's main and before any library that Python loads.
//
// ASMEVO_REPLAY_HOLD is "RANGES_FD RESULTS_FD ATTEMPTS_LEFT". RANGES_FD holds lines "ADDRESS SIZE ACCESSIBLE" in
// hexadecimal. Where the layout, which is random, has something of the process itself at a range (its stack, its program, the
// C library), the program is executed anew, with another layout; the descriptors stay open. When no attempts are left,
// a message in the worker's protocol (replay/job.py) goes to RESULTS_FD and names what holds the address.
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000  // Linux 4.17
#endif

enum { kExitAddressTaken = 75, kExitBroken = 70, kMaxRanges = 1 << 16 };

static const char kVariable[] = "ASMEVO_REPLAY_HOLD";

struct Range {
    uint64_t address, size;
    unsigned accessible;
};

static void fail(const char* what) {
    fprintf(stderr, "asmevo: address hold: %s\n", what);
    _exit(kExitBroken);
}

/// The name of the first mapping that overlaps a range, from /proc/self/maps. JSON-safe: what is not printable ASCII, a quote or
/// a backslash becomes a question mark.
static void find_holder(const struct Range* range, char* name, size_t size) {
    snprintf(name, size, "no mapping of this process");
    FILE* maps = fopen("/proc/self/maps", "re");
    if (!maps) {
        return;
    }
    char line[4352];
    while (fgets(line, sizeof line, maps)) {
        uint64_t low, high;
        int path = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %*s %n", &low, &high, &path) < 2) {
            continue;
        }
        if (low < range->address + range->size && range->address < high) {
            line[strcspn(line, "\n")] = '\0';
            const char* shown = path > 0 && line[path] ? line + path : "[anonymous]";
            snprintf(name, size, "%" PRIx64 "-%" PRIx64 " %.200s", low, high, shown);
            break;
        }
    }
    fclose(maps);
    for (char* at = name; *at; ++at) {
        if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\') {
            *at = '?';
        }
    }
}

/// True when the range is reserved; errno says why not.
static bool reserve(const struct Range* range) {
    const int protection = range->accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE;
    void* wanted = (void*)(uintptr_t)range->address;
    void* got = mmap(wanted, range->size, protection, flags, -1, 0);
    if (got == wanted) {
        return true;
    }
    if (got != MAP_FAILED) {  // a kernel without MAP_FIXED_NOREPLACE takes the address as a hint
        munmap(got, range->size);
        errno = EEXIST;
    }
    return false;
}

static void report(int results, const struct Range* range, int error) {
    char holder[320], message[640];
    find_holder(range, holder, sizeof holder);
    const int length = snprintf(
        message, sizeof message,
        "{\"event\": \"address_taken\", \"message\": \"0x%" PRIx64 " (%" PRIu64 " bytes) is taken by %s, %s\"}\n",
        range->address, range->size, holder, strerror(error));
    if (length <= 0 || write(results, message, (size_t)length) != length) {
        fail("the message about a taken address could not be sent");
    }
    _exit(kExitAddressTaken);
}

/// Executes the program again, which gets another layout.
static void start_again(char** arguments, int ranges, int results, int left) {
    char value[64];
    snprintf(value, sizeof value, "%d %d %d", ranges, results, left);
    if (setenv(kVariable, value, 1) != 0) {
        fail("out of memory");
    }
    execv(arguments[0], arguments);
    fail("the program could not be executed again");
}

__attribute__((constructor)) static void hold_addresses(int count, char** arguments) {
    const char* wanted = getenv(kVariable);
    int ranges, results, left;
    if (!wanted || count < 1) {
        return;
    }
    if (sscanf(wanted, "%d %d %d", &ranges, &results, &left) != 3) {
        fail("ASMEVO_REPLAY_HOLD is damaged");
    }
    FILE* list = fdopen(dup(ranges), "r");
    if (!list || fseek(list, 0, SEEK_SET) != 0) {
        fail("the list of ranges cannot be read");
    }
    struct Range range;
    for (int number = 0; fscanf(list, "%" SCNx64 " %" SCNx64 " %x", &range.address, &range.size, &range.accessible) == 3;
         ++number) {
        if (number == kMaxRanges) {
            fail("too many ranges");
        }
        if (reserve(&range)) {
            continue;
        }
        const int error = errno;
        if (left > 0) {
            fclose(list);
            start_again(arguments, ranges, results, left - 1);
        }
        report(results, &range, error);
    }
    fclose(list);
    close(ranges);
    unsetenv(kVariable);
    unsetenv("LD_PRELOAD");
}
