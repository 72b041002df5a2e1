// ROCTX: markers for profilers, of which none listens. They nest by thread.
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

static _Thread_local int depth;
static uint64_t next_range = 1;

EXPORT uint32_t roctx_version_major(void) { return 4; }
EXPORT uint32_t roctx_version_minor(void) { return 1; }
EXPORT void roctxMarkA(const char* message) { (void)message; }
EXPORT int roctxRangePushA(const char* message) {
    (void)message;
    return depth++;
}
EXPORT int roctxRangePop(void) { return depth > 0 ? --depth : -1; }
EXPORT uint64_t roctxRangeStartA(const char* message) {
    (void)message;
    return __atomic_fetch_add(&next_range, 1, __ATOMIC_RELAXED);
}
EXPORT void roctxRangeStop(uint64_t range) { (void)range; }
EXPORT int roctxProfilerPause(uint64_t thread) { return (void)thread, 0; }
EXPORT int roctxProfilerResume(uint64_t thread) { return (void)thread, 0; }
EXPORT int roctxNameOsThread(const char* name) { return (void)name, 0; }
EXPORT int roctxNameHsaAgent(const char* name, const void* agent) { return (void)name, (void)agent, 0; }
EXPORT int roctxNameHipDevice(const char* name, int device) { return (void)name, (void)device, 0; }
EXPORT int roctxNameHipStream(const char* name, const void* stream) { return (void)name, (void)stream, 0; }
EXPORT int roctxGetThreadId(uint64_t* thread) { return *thread = 0, 0; }
EXPORT const char* roctracer_error_string(void) { return ""; }
