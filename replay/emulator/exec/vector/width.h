// Vector handlers are compiled twice from one source, for vectors of 256 and of 512 bits; which ones a process runs is
// chosen when it decodes its first instruction (width.cpp). Everything that such a file defines, and every inline function of
// the headers below it, stands in a namespace of its width, so that the linker never takes one for the other. Other files are
// compiled for 256 bits only and see that namespace as their own.
#pragma once

#ifdef __AVX512F__
#define ASMEVO_VECTOR_WIDTH v512
#else
#define ASMEVO_VECTOR_WIDTH v256
#endif

namespace asmevo::emulator {

/// Bits of the vectors with which this process executes vector instructions: 512 where the CPU has AVX-512 F, BW, CD, DQ and
/// VL, otherwise 256; ASMEVO_EMULATOR_VECTOR_WIDTH=256 or 512 chooses.
unsigned vector_width();

}  // namespace asmevo::emulator
