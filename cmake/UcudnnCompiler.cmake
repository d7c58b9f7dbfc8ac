# Warnings, sanitizers, and functions for targets that must run on old glibc or in other people's processes.
add_library(ucudnn_compiler INTERFACE)
# Newer compilers give more warnings, some of them wrong. Only older compilers, whose warnings are known, get -Werror.
set(werror)
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13) OR
   (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15))
  set(werror -Werror)
endif()
target_compile_options(ucudnn_compiler INTERFACE -Wall -Wextra ${werror}
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  # Clang checks which mutex guards which members (base/mutex.h). These warnings are errors with every Clang.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety -Werror=thread-safety>)
# The heap size in KiB at which g++ begins to collect garbage. With g++'s default, which is smaller, collecting takes a
# sixth of the time to compile a test.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1048576>)
# Asserts must not print folders of the machine on which they were compiled.
add_compile_options(-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(UCUDNN_SANITIZE)
  add_compile_options(-fsanitize=${UCUDNN_SANITIZE} -fno-omit-frame-pointer)
  if(UCUDNN_SANITIZE MATCHES "undefined")
    # C callers may pass any int where cuDNN declares an enumeration.
    add_compile_options(-fno-sanitize-recover=all -fno-sanitize=enum)
  endif()
  add_link_options(-fsanitize=${UCUDNN_SANITIZE})
endif()

# The oldest glibc on which installed files run (RHEL 8, manylinux_2_28), whatever the build machine has. Targets are
# linked with stub libraries that have only the symbols of that glibc. shim/glibc defines the functions of newer
# versions that ucudnn needs.
set(UCUDNN_GLIBC 2.28)
set(_glibc ${CMAKE_SOURCE_DIR}/shim/glibc)
set(_glibc_stubs ${CMAKE_BINARY_DIR}/glibc-${UCUDNN_GLIBC})
if(NOT UCUDNN_SANITIZE)
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_glibc}/generate-stubs)
  execute_process(COMMAND ${_glibc}/generate-stubs ${UCUDNN_GLIBC} ${_glibc_stubs} ${CMAKE_C_COMPILER}
    COMMAND_ERROR_IS_FATAL ANY)
endif()

# ucudnn_oldest_glibc(TARGET): links the target with the stub libraries, so that symbols of newer versions are
# undefined.
function(ucudnn_oldest_glibc target)
  if(NOT UCUDNN_SANITIZE)
    target_link_options(${target} PRIVATE -L${_glibc_stubs} -Wl,--push-state,--no-as-needed
      ${_glibc_stubs}/libdl.so.2 ${_glibc_stubs}/libpthread.so.0 -Wl,--pop-state)
  endif()
endfunction()

# ucudnn_carry_runtime(TARGET): also links libstdc++ and libgcc statically. Unused parts of libstdc++ are left out,
# because some of them call functions of newer glibc versions. Sanitizer builds keep the shared libraries, because a
# sanitizer's runtime must see only one copy of each library.
function(ucudnn_carry_runtime target)
  if(NOT UCUDNN_SANITIZE)
    ucudnn_oldest_glibc(${target})
    target_sources(${target} PRIVATE ${_glibc}/find_object.c ${_glibc}/later_functions.c)
    set_source_files_properties(${_glibc}/later_functions.c TARGET_DIRECTORY ${target} PROPERTIES
      COMPILE_OPTIONS "-ffunction-sections;-fdata-sections")
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections
      -Wl,--wrap=_dl_find_object)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_sources(${target} PRIVATE ${_glibc}/start.c)
      target_link_options(${target} PRIVATE -Wl,--wrap=__libc_start_main)
    endif()
  endif()
endfunction()

# ucudnn_guest_library(TARGET MAP): for a shared library that is loaded into other people's processes. It exports only
# what the version script MAP names, contains its own hidden libstdc++, and is never unloaded.
function(ucudnn_guest_library target map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,-z,defs -Wl,-z,nodelete
    -Wl,--exclude-libs,ALL)
  if(UCUDNN_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,undefs)
  endif()
  ucudnn_carry_runtime(${target})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()
