# ashlar_library(<folder> SOURCES <file>... [DEPS <target>...])
#   The one library of a folder of src/; DEPS are folders (ashlar_base) or outside libraries.
function(ashlar_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(ashlar_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(ashlar_${name} PUBLIC ashlar_flags ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
endfunction()

# ashlar_test(<folder> SOURCES <file>... [DEPS <target>...])
#   The tests of a folder: one program, one ctest entry per test case.
function(ashlar_test name)
  if(NOT ASHLAR_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  target_link_libraries(${name}_test PRIVATE ashlar_${name} ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  if(ASHLAR_SANITIZE)  # optimising instrumented tests takes longer than it saves
    target_compile_options(${name}_test PRIVATE -O0)
  endif()
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}/ DISCOVERY_MODE PRE_TEST
    PROPERTIES TIMEOUT 120 LABELS unit)
endfunction()

# ashlar_fuzzer(<name> SOURCES <file>... [DEPS <target>...]): a libFuzzer program, run by scripts/fuzz.sh.
function(ashlar_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_fuzz ${ARG_SOURCES})
  target_link_libraries(${name}_fuzz PRIVATE ${ARG_DEPS})
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
endfunction()

# ashlar_benchmark(<name> SOURCES <file>... [DEPS <target>...]): a Google Benchmark program.
function(ashlar_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_bench ${ARG_SOURCES})
  target_link_libraries(${name}_bench PRIVATE ${ARG_DEPS} benchmark::benchmark_main)
endfunction()
