# Cross-compiles for Arm (AArch64 Linux) with Debian's g++-12-aarch64-linux-gnu, statically, and lets
# ctest run the result through qemu-aarch64-static (package qemu-user-static).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc-12)  # GoogleTest's build asks for one
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)
# Neoverse N1 (Graviton 2, Ampere Altra): the dot product extension, and nothing younger. Only a build
# that says so uses the extension: without -march it is plain AArch64 (kernels/simd/dot-inl.h).
set(CMAKE_CXX_FLAGS_INIT "-march=armv8.2-a+dotprod")
# This compiler also looks into /usr/include, which holds another processor's headers. -isysroot takes
# that folder away and leaves its own ones; --sysroot would also move the libraries.
string(APPEND CMAKE_CXX_FLAGS_INIT " -isysroot /usr/aarch64-linux-gnu")
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -cpu neoverse-n1)
