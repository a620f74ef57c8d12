# The libraries src/base and src/kernels need, when the distribution's are built for another processor
# than ours (ASHLAR_KERNELS_ONLY): their headers alone, and GoogleTest from its sources.
find_package(Threads REQUIRED)

set(ASHLAR_HEADER_DIR ${CMAKE_BINARY_DIR}/deps/include)
file(MAKE_DIRECTORY ${ASHLAR_HEADER_DIR})

# ashlar_header_library(<target> <folder> <header>): makes the folder of the host's include folder that
# holds the header visible, and nothing beside it.
function(ashlar_header_library target folder header)
  find_path(ASHLAR_PARENT_OF_${folder} ${folder}/${header} NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  file(CREATE_LINK ${ASHLAR_PARENT_OF_${folder}}/${folder} ${ASHLAR_HEADER_DIR}/${folder} SYMBOLIC)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE ${ASHLAR_HEADER_DIR})
endfunction()

ashlar_header_library(fmt::fmt fmt format.h)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
ashlar_header_library(spdlog::spdlog spdlog spdlog.h)
target_compile_definitions(spdlog::spdlog INTERFACE SPDLOG_HEADER_ONLY SPDLOG_FMT_EXTERNAL)
# Highway's library only detects processors: on Arm the one target we compile needs no detection.
ashlar_header_library(hwy::hwy hwy highway.h)

if(ASHLAR_TESTS)
  include(GoogleTest)
  find_path(ASHLAR_GOOGLETEST_SOURCE googlemock/CMakeLists.txt HINTS /usr/src/googletest
            NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  set(INSTALL_GTEST OFF)
  add_subdirectory(${ASHLAR_GOOGLETEST_SOURCE} ${CMAKE_BINARY_DIR}/deps/googletest EXCLUDE_FROM_ALL SYSTEM)
endif()
