# ucudnn_test(NAME SOURCES ... [LIBS ...] [LABELS ...] [ENVIRONMENT ...]): a GoogleTest program. CTest runs the whole
# program as one test, so it starts only once. GoogleTest prints which of its cases failed.
include(UcudnnTestGroups)
find_package(GTest REQUIRED)
find_package(Threads REQUIRED)

# GCC 12's sanitizer runtime records the blocks of every thread's dynamic TLS. If a block begins 16 bytes after a page
# boundary, the runtime assumes that an old glibc allocated it and stored its size and address in front. One in 256
# blocks of ASan's heap begins at such an address. LeakSanitizer then follows a pointer in ASan's own heap header, and
# crashes ("Tracer caught signal 11"). Switching the interceptor off hides no leak, because LeakSanitizer searches the
# dynamic linker's memory anyway.
set(UCUDNN_SANITIZER_ENVIRONMENT ASAN_OPTIONS=intercept_tls_get_addr=0)
# The real cuDNN opens its parts by name, and finds them by its run path. In a sanitizer build, dlopen searches the run
# path of the sanitizer's runtime instead. So LD_LIBRARY_PATH names a folder with cuDNN's parts. libcudnn.so.9 itself is
# not in that folder: it would be found instead of the stand-in or the drop-in, which have the same name.
if(UCUDNN_SANITIZE)
  get_filename_component(_cudnn ${UCUDNN_REAL_CUDNN_LIBRARY} DIRECTORY)
  get_filename_component(_cuda ${UCUDNN_REAL_CUDART} DIRECTORY)
  file(GLOB _parts ${_cudnn}/libcudnn_*.so.9 ${_cuda}/libcublas*.so.13)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/real-parts)
  foreach(_part IN LISTS _parts)
    get_filename_component(_name ${_part} NAME)
    file(CREATE_LINK ${_part} ${CMAKE_BINARY_DIR}/real-parts/${_name} SYMBOLIC)
  endforeach()
  set(UCUDNN_REAL_PARTS LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/real-parts)
endif()

# A test fails if it runs for more than this many seconds.
set(UCUDNN_TEST_TIMEOUT 300)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  set(UCUDNN_TEST_TIMEOUT 1800)
endif()

# Tests are compiled more often than they run, so they are optimised little or not at all; the code under test is
# optimised. With a sanitizer, tests have no line numbers: reports name a test's functions, but no lines in it.
set(UCUDNN_TEST_OPTIMISATION $<$<CONFIG:Release>:-O1>)
if(UCUDNN_SANITIZE)
  set(UCUDNN_TEST_OPTIMISATION -O0 -g0)
endif()

# The headers that nearly every test includes, precompiled for unity builds only. Other builds check that each source
# includes what it needs, and clang-tidy cannot read g++'s precompiled headers. Test programs are compiled with -fPIE,
# and so must the precompiled header be.
if(CMAKE_UNITY_BUILD)
  file(CONFIGURE OUTPUT test_headers.cpp CONTENT "namespace ucudnn::test {}\n")
  add_library(ucudnn_test_headers OBJECT ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp)
  set_target_properties(ucudnn_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(ucudnn_test_headers PRIVATE -fPIE ${UCUDNN_TEST_OPTIMISATION})
  target_link_libraries(ucudnn_test_headers PRIVATE GTest::gmock GTest::gtest Threads::Threads ucudnn_compiler)
  target_precompile_headers(ucudnn_test_headers PRIVATE <algorithm> <cstdlib> <fstream> <map> <optional> <string>
    <vector> <gmock/gmock.h> <gtest/gtest.h>)
endif()

# Programs with a sanitizer are large. lld, if it is installed, links them in half the time of the default linker.
if(UCUDNN_SANITIZE)
  find_program(UCUDNN_LLD ld.lld)
endif()

function(ucudnn_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE ${UCUDNN_TEST_OPTIMISATION})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} test_main GTest::gtest Threads::Threads ucudnn_compiler)
  if(TARGET ucudnn_test_headers)
    target_precompile_headers(${name} REUSE_FROM ucudnn_test_headers)
  endif()
  if(UCUDNN_LLD)
    target_link_options(${name} PRIVATE -fuse-ld=lld)
  endif()
  if(NOT "${ARG_ENVIRONMENT}" MATCHES LD_LIBRARY_PATH)
    list(APPEND ARG_ENVIRONMENT ${UCUDNN_REAL_PARTS})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${UCUDNN_TEST_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "${ARG_ENVIRONMENT};${UCUDNN_SANITIZER_ENVIRONMENT}")
endfunction()
