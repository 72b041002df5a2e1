// Says so when the CPU lacks what the library is compiled for, instead of dying of an illegal instruction. This file alone is
// compiled for any x86-64, and its constructor runs before all others of the library.
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor(101))) static void check_cpu(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
        return;
    }
    fputs("asmevo: the emulated device needs a CPU with AVX2, FMA and BMI2 (x86-64-v3: Intel since Haswell, AMD since Zen)\n",
          stderr);
    _Exit(4);
}
