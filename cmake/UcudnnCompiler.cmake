# Warnings, sanitizers, and what every library loaded into a stranger's process has in common.
add_library(ucudnn_compiler INTERFACE)
target_compile_options(ucudnn_compiler INTERFACE -Wall -Wextra -Werror
  $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
if(UCUDNN_SANITIZE)
  add_compile_options(-fsanitize=${UCUDNN_SANITIZE} -fno-omit-frame-pointer)
  if(UCUDNN_SANITIZE STREQUAL "undefined")
    # C callers may pass any int where cuDNN declares an enumeration.
    add_compile_options(-fno-sanitize-recover=all -fno-sanitize=enum)
  endif()
  add_link_options(-fsanitize=${UCUDNN_SANITIZE})
endif()

# ucudnn_carry_runtime(TARGET): brings its own libstdc++ and libgcc, so that it runs wherever glibc 2.34 does
# (RHEL 9, Ubuntu 22.04), whatever it was built on. Of libstdc++ only what is used: parts that are not call newer
# functions. Sanitizer builds keep the shared libraries: their runtimes must see one copy.
function(ucudnn_carry_runtime target)
  if(NOT UCUDNN_SANITIZE)
    target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/shim/glibc/find_object.c)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections
      -Wl,--wrap=_dl_find_object)
  endif()
endfunction()

# ucudnn_guest_library(TARGET MAP): a shared library for other people's processes. Exports only what the
# version script MAP names, brings its own hidden libstdc++ and is never unloaded.
function(ucudnn_guest_library target map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,-z,defs -Wl,-z,nodelete
    -Wl,--exclude-libs,ALL)
  if(UCUDNN_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,undefs)
  endif()
  ucudnn_carry_runtime(${target})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()
