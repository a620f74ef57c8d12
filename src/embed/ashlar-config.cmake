# find_package(ashlar): the target ashlar::ashlar, a static library, and what it links.
include(CMakeFindDependencyMacro)
find_dependency(fmt)
find_dependency(OpenSSL 3.0)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/ashlar-targets.cmake)
