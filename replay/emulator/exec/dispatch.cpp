namespace asmevo::emulator {}
