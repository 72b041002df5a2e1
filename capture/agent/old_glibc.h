// Binds to the oldest versions of the C library's functions, so that a library built here loads in
// a target's container with an older glibc: 2.34 gave the functions of libdl and libpthread new
// versions without changing them. Included before everything else (CMakeLists.txt).
#pragma once

#if defined(__x86_64__) && defined(__linux__)
#ifndef ASMEVO_DEFINES_DLOPEN
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
#endif
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
__asm__(".symver dladdr,dladdr@GLIBC_2.2.5");
__asm__(".symver dladdr1,dladdr1@GLIBC_2.3.3");
__asm__(".symver dlinfo,dlinfo@GLIBC_2.3.3");
__asm__(".symver pthread_create,pthread_create@GLIBC_2.2.5");
__asm__(".symver pthread_detach,pthread_detach@GLIBC_2.2.5");
__asm__(".symver pthread_sigmask,pthread_sigmask@GLIBC_2.2.5");
#endif
