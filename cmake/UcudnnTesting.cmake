# ucudnn_test(NAME SOURCES... [LIBS ...] [LABELS ...]): a GoogleTest program, run by CTest as one test.
# One program is one CTest test: start-up is paid once, and GoogleTest prints what failed.
include(UcudnnTestGroups)
find_package(GTest REQUIRED)
find_package(Threads REQUIRED)

# GCC 12's run-time notes every thread's dynamic TLS, and takes a block that begins 16 bytes behind a
# page, as one of ASan's heap in 256 does, for one of an old glibc with its size and address in front:
# LeakSanitizer then reads where ASan's own heap header points, and dies ("Tracer caught signal 11").
# Without that interceptor nothing is lost: what the dynamic linker allocates is searched anyway.
set(UCUDNN_SANITIZER_ENVIRONMENT ASAN_OPTIONS=intercept_tls_get_addr=0)
# And a sanitizer's dlopen looks in its own run path, not in that of the real cuDNN, which opens its parts by name. They
# are handed to the loader without libcudnn.so.9 itself, whose name the stand-in and the drop-in have, too.
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

# Seconds after which a test hangs.
set(UCUDNN_TEST_TIMEOUT 300)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  set(UCUDNN_TEST_TIMEOUT 1800)
endif()

# Tests are compiled more often than they run: what they test is optimised, they are little or not, and a sanitizer names
# the functions of theirs, but the lines only of what they test.
set(UCUDNN_TEST_OPTIMISATION $<$<CONFIG:Release>:-O1>)
if(UCUDNN_SANITIZE)
  set(UCUDNN_TEST_OPTIMISATION -O0 -g0)
endif()

# What nearly every test includes, parsed once where sources are compiled many at a time (CMakePresets.json): where each is
# compiled by itself, that shows which include one of them lacks, and clang-tidy reads no g++'s precompiled header.
# Programs are -fPIE, and the precompiled header must be as they are.
if(CMAKE_UNITY_BUILD)
  file(CONFIGURE OUTPUT test_headers.cpp CONTENT "namespace ucudnn::test {}\n")
  add_library(ucudnn_test_headers OBJECT ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cpp)
  set_target_properties(ucudnn_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(ucudnn_test_headers PRIVATE -fPIE ${UCUDNN_TEST_OPTIMISATION})
  target_link_libraries(ucudnn_test_headers PRIVATE GTest::gmock GTest::gtest Threads::Threads ucudnn_compiler)
  target_precompile_headers(ucudnn_test_headers PRIVATE <algorithm> <cstdlib> <fstream> <map> <optional> <string>
    <vector> <gmock/gmock.h> <gtest/gtest.h>)
endif()

# A sanitizer's programs are large: where lld is installed, it links them in half the time.
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
  if(threads IN_LIST ARG_LABELS)
    add_dependencies(threads_tests ${name})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${UCUDNN_TEST_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "${ARG_ENVIRONMENT};${UCUDNN_SANITIZER_ENVIRONMENT}")
endfunction()
