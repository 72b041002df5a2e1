// Notices when libamdhip64.so gets into the process.
#pragma once

// Calls `found` once with a dlopen handle, as soon as the library is mapped: now or after a dlopen.
void library_watch_start(void (*found)(void* library));
