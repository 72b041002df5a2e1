// What the stubs of a library do. LIBRARY is its name, STATUS its status code for what is not supported.
#include <stdio.h>

static void tell(const char* function, char* told) {
    if (!*told) {  // once a function: programs may try again in a loop
        *told = 1;
        fprintf(stderr,
                "asmevo emulated device: %s: the device has no %s; only programs that do without it run\n",
                function, LIBRARY);
    }
}

__attribute__((visibility("hidden"))) long asmevo_refuse(const char* function, char* told) {
    tell(function, told);
    return STATUS;
}

__attribute__((visibility("hidden"))) const char* asmevo_refuse_text(const char* function, char* told) {
    tell(function, told);
    return "not available on the emulated device";
}
