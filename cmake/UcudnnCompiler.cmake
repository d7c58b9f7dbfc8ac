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

# ucudnn_guest_library(TARGET MAP): a shared library for other people's processes. Exports only what the
# version script MAP names, brings its own hidden libstdc++ and is never unloaded.
# Sanitizer builds keep the shared libstdc++: their runtimes must see one copy.
function(ucudnn_guest_library target map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,-z,defs -Wl,-z,nodelete
    -Wl,--exclude-libs,ALL)
  if(UCUDNN_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,undefs)
  else()
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()
