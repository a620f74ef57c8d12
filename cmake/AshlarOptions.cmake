# Switches a preset may set, and the compiler flags every target of ours is built with.
option(ASHLAR_TESTS "Build the tests" ON)
option(ASHLAR_BENCH "Build the benchmarks" OFF)
option(ASHLAR_KERNELS_ONLY "Build src/base and src/kernels alone, with header-only libraries: to cross-compile" OFF)
option(ASHLAR_FUZZ "Build the libFuzzer targets (clang only)" OFF)
set(ASHLAR_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize takes them: 'address,undefined' or 'thread'")

add_library(ashlar_flags INTERFACE)
target_include_directories(ashlar_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
# Designated initialisers leave fields at their defaults on purpose: GCC's warning about it is off.
target_compile_options(ashlar_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers -Werror)

# The C++ library of GCC 12 marks as deprecated what its own std::stable_sort uses: only clang says so.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(ashlar_flags INTERFACE -Wno-deprecated-declarations)
endif()

# Bit-identity (docs/decisions/0002): a multiply and an add are fused only where the source says so.
target_compile_options(ashlar_flags INTERFACE -ffp-contract=off)

# The oldest x86 we run on. Newer instructions are reached only through run-time dispatch in kernels/.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(ashlar_flags INTERFACE -march=x86-64-v2)
endif()

if(ASHLAR_SANITIZE)
  target_compile_options(ashlar_flags INTERFACE
    -fsanitize=${ASHLAR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ashlar_flags INTERFACE -fsanitize=${ASHLAR_SANITIZE})
endif()
if(ASHLAR_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "ASHLAR_FUZZ needs clang (libFuzzer); the compiler is ${CMAKE_CXX_COMPILER_ID}")
  endif()
  target_compile_options(ashlar_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
