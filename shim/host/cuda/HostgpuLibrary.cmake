# hostgpu_library(TARGET OUTPUT name VERSION n MAP file EXPORTS file SOURCES ... [LIBS ...]): the stand-in
# lib<name>.so.<n> in lib/ucudnn/host. Exports that SOURCES leave out become stubs that answer "not supported".
# SOURCES define an export if PyTorch, JAX, TensorFlow, ONNX Runtime, a sample or a test program imports it, if C programs
# usually call it (docs/commands.md says what runs on the stand-ins), or if its stub could not return an error.
# Link tests with TARGET: it brings the CUDA headers and a run path.
function(hostgpu_library target)
  cmake_parse_arguments(ARG "" "OUTPUT;VERSION;MAP;EXPORTS" "SOURCES;LIBS" ${ARGN})
  set(generator ${CMAKE_SOURCE_DIR}/tools/generate-host-stubs)
  set(exports ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_EXPORTS})
  set(stubs ${CMAKE_CURRENT_BINARY_DIR}/${target}_stubs.S)
  add_library(${target}_objects OBJECT ${ARG_SOURCES})
  target_include_directories(${target}_objects PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${target}_objects PRIVATE ucudnn_compiler ucudnn_cuda_headers ${ARG_LIBS})
  add_custom_command(OUTPUT ${stubs}
    COMMAND ${CMAKE_COMMAND} -E env NM=${CMAKE_NM} ${generator} ${exports} $<TARGET_OBJECTS:${target}_objects> > ${stubs}
    DEPENDS ${target}_objects $<TARGET_OBJECTS:${target}_objects> ${exports} ${generator}
    COMMAND_EXPAND_LISTS VERBATIM)
  add_library(${target} SHARED $<TARGET_OBJECTS:${target}_objects> ${stubs})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT} SOVERSION ${ARG_VERSION}
    LIBRARY_OUTPUT_DIRECTORY ${UCUDNN_HOST_DIR} LINKER_LANGUAGE CXX INSTALL_RPATH $ORIGIN)
  target_link_libraries(${target} PRIVATE ${ARG_LIBS} Threads::Threads)
  target_link_libraries(${target} INTERFACE ucudnn_cuda_headers)
  # Only programs need this run path. The stand-ins find each other by their own run path, $ORIGIN, also when installed.
  target_link_options(${target} INTERFACE
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-Wl,-rpath,${UCUDNN_HOST_DIR}>)
  ucudnn_guest_library(${target} ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_MAP})
  install(TARGETS ${target} LIBRARY DESTINATION lib/ucudnn/host NAMELINK_SKIP)
endfunction()
