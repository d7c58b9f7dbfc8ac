# CUDA and cuDNN headers, and the genuine libraries test programs are linked with: from build/deps
# (where tools/setup puts NVIDIA's wheels) or an installed toolkit. Nothing of ours links them.
set(_deps ${CMAKE_SOURCE_DIR}/build/deps/nvidia)
set(_cuda_roots ${_deps}/cu13 $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda)
set(_cudnn_roots ${_deps}/cudnn $ENV{CUDNN_HOME} $ENV{CUDNN_PATH} ${_cuda_roots} /usr)
find_path(UCUDNN_CUDA_INCLUDE cuda_runtime.h HINTS ${_cuda_roots} PATH_SUFFIXES include targets/x86_64-linux/include)
find_path(UCUDNN_CUDNN_INCLUDE cudnn.h HINTS ${_cudnn_roots} PATH_SUFFIXES include include/x86_64-linux-gnu)
find_file(UCUDNN_REAL_CUDART libcudart.so.13 HINTS ${_cuda_roots} PATH_SUFFIXES lib lib64 targets/x86_64-linux/lib)
find_file(UCUDNN_REAL_CUDNN_LIBRARY libcudnn.so.9 HINTS ${_cudnn_roots} PATH_SUFFIXES lib lib64 lib/x86_64-linux-gnu)
foreach(v UCUDNN_CUDA_INCLUDE UCUDNN_CUDNN_INCLUDE UCUDNN_REAL_CUDART UCUDNN_REAL_CUDNN_LIBRARY)
  if(NOT ${v})
    message(FATAL_ERROR "${v} not found: run tools/setup, or set it to where CUDA 13 and cuDNN 9 are")
  endif()
endforeach()

add_library(ucudnn_cuda_headers INTERFACE)
target_include_directories(ucudnn_cuda_headers SYSTEM INTERFACE ${UCUDNN_CUDA_INCLUDE} ${UCUDNN_CUDNN_INCLUDE})

# Programs written as a user would: linked with the genuine libraries, changed in nothing.
add_library(ucudnn_genuine_cuda INTERFACE)
target_link_libraries(ucudnn_genuine_cuda INTERFACE ucudnn_cuda_headers ${UCUDNN_REAL_CUDNN_LIBRARY} ${UCUDNN_REAL_CUDART})
target_link_options(ucudnn_genuine_cuda INTERFACE -Wl,--allow-shlib-undefined)
