// Interposes dlopen. glibc looks a name without a slash up along the RUNPATH of the *caller*, and
// the caller of the real dlopen is now this library; so that search is done here
// (search_as_caller).
#define _GNU_SOURCE
#include "library_watch.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void* (*dlopen_function)(const char*, int);

static _Atomic(void (*)(void*)) g_found;
static atomic_int g_state;
static _Thread_local bool t_is_preparing;
enum { NOT_FOUND, PREPARING, PREPARED };

static dlopen_function real_dlopen(void) {
    static _Atomic(dlopen_function) real;
    dlopen_function function = atomic_load(&real);
    if (function == NULL) {
        function = (dlopen_function)dlsym(RTLD_NEXT, "dlopen");
        atomic_store(&real, function);
    }
    return function;
}

static int look_at(struct dl_phdr_info* info, size_t size, void* data) {
    (void)size;
    const char* slash = strrchr(info->dlpi_name, '/');
    const char* base = slash != NULL ? slash + 1 : info->dlpi_name;
    if (strncmp(base, "libamdhip64.so", 14) != 0) {
        return 0;
    }
    snprintf(data, PATH_MAX, "%s", info->dlpi_name);
    return 1;
}

// Waits for the thread that prepares the library, so that no program thread gets to use it
// unhooked. Bounded: this thread may hold the loader's lock, which that thread may want.
static void wait_until_prepared(void) {
    for (int i = 0; i < 1000 && atomic_load(&g_state) == PREPARING; ++i) {
        usleep(1000);
    }
}

static void look_for_library(void) {
    void (*found)(void*) = atomic_load(&g_found);
    if (found == NULL || t_is_preparing || atomic_load(&g_state) == PREPARED) {
        return;
    }
    char path[PATH_MAX] = "";
    dl_iterate_phdr(look_at, path);
    if (path[0] == '\0') {
        return;
    }
    int expected = NOT_FOUND;
    if (!atomic_compare_exchange_strong(&g_state, &expected, PREPARING)) {
        wait_until_prepared();
        return;
    }
    t_is_preparing = true;
    void* library = real_dlopen()(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL) {
        found(library);
    }
    t_is_preparing = false;
    atomic_store(&g_state, library != NULL ? PREPARED : NOT_FOUND);
}

void library_watch_start(void (*found)(void* library)) {
    atomic_store(&g_found, found);
    look_for_library();
}

// The loader's own last resort, after ld.so.cache; dlinfo lists these folders too and marks none.
static bool is_system_folder(const char* folder) {
    static const char* const kFolders[] = {
        "/lib",   "/usr/lib",   "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
        "/lib64", "/usr/lib64",
    };
    for (size_t i = 0; i < sizeof kFolders / sizeof kFolders[0]; ++i) {
        if (strcmp(folder, kFolders[i]) == 0) {
            return true;
        }
    }
    return false;
}

// Finds `name` along LD_LIBRARY_PATH and the caller's RPATH and RUNPATH, in the loader's order.
static bool search_as_caller(const char* name, const void* caller, char* path) {
    Dl_info info;
    struct link_map* map = NULL;
    if (dladdr1(caller, &info, (void**)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) {
        return false;
    }
    Dl_serinfo head;
    if (dlinfo(map, RTLD_DI_SERINFOSIZE, &head) != 0 || head.dls_size > 1 << 20) {
        return false;
    }
    Dl_serinfo* list = malloc(head.dls_size);
    bool found = false;
    if (list != NULL && dlinfo(map, RTLD_DI_SERINFOSIZE, list) == 0 &&
        dlinfo(map, RTLD_DI_SERINFO, list) == 0) {
        for (unsigned i = 0; i < list->dls_cnt && !found; ++i) {
            const char* folder = list->dls_serpath[i].dls_name;
            const int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
            found = !is_system_folder(folder) && length < PATH_MAX && access(path, R_OK) == 0;
        }
    }
    free(list);
    return found;
}

__attribute__((visibility("default"))) void* dlopen(const char* name, int flags) {
    const void* caller = __builtin_return_address(0);
    dlopen_function real = real_dlopen();
    void* handle = NULL;
    char path[PATH_MAX];
    const bool is_bare = name != NULL && name[0] != '\0' && strchr(name, '/') == NULL;
    if (is_bare && (flags & RTLD_NOLOAD) == 0) {
        handle = real(name, flags | RTLD_NOLOAD);
        if (handle == NULL && search_as_caller(name, caller, path)) {
            handle = real(path, flags);
        }
    }
    if (handle == NULL) {
        handle = real(name, flags);
    }
    if (handle != NULL) {
        look_for_library();
    }
    return handle;
}
