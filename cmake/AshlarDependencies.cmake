# Libraries from the distribution; scripts/install.sh installs them.
# Boost 1.81's headers, where another Boost is installed for other work and had to stay.
if(EXISTS ${CMAKE_SOURCE_DIR}/build/deps/boost/usr)
  list(PREPEND CMAKE_PREFIX_PATH ${CMAKE_SOURCE_DIR}/build/deps/boost/usr)
endif()

find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(hwy REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)  # libcrypto only
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED libxxhash)  # its header only: nothing links the library
if(ASHLAR_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
if(ASHLAR_BENCH)
  find_package(benchmark REQUIRED)
endif()
