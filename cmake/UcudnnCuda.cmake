# The headers of CUDA and cuDNN, and the real libraries, with which only test programs are linked.
include(UcudnnCudaSearch)
foreach(v UCUDNN_CUDA_INCLUDE UCUDNN_CUDNN_INCLUDE UCUDNN_REAL_CUDART UCUDNN_REAL_CUDNN_LIBRARY)
  if(NOT ${v})
    message(FATAL_ERROR "${v} not found: run tools/setup, or set it to where CUDA 13 and cuDNN 9 are")
  endif()
endforeach()

add_library(ucudnn_cuda_headers INTERFACE)
target_include_directories(ucudnn_cuda_headers SYSTEM INTERFACE ${UCUDNN_CUDA_INCLUDE} ${UCUDNN_CUDNN_INCLUDE})

# For test programs that are written like a user's program: they are linked with the real libraries and do not know
# ucudnn.
add_library(ucudnn_real_cuda INTERFACE)
target_link_libraries(ucudnn_real_cuda INTERFACE ucudnn_cuda_headers ${UCUDNN_REAL_CUDNN_LIBRARY} ${UCUDNN_REAL_CUDART})
target_link_options(ucudnn_real_cuda INTERFACE -Wl,--allow-shlib-undefined)

# NVIDIA's C++ interface to the graph API: only headers, from the wheel that tools/setup unpacks.
find_path(UCUDNN_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h NO_DEFAULT_PATH PATHS ${CMAKE_SOURCE_DIR}/build/deps
  $ENV{CUDNN_FRONTEND_HOME} PATH_SUFFIXES include)
if(NOT UCUDNN_CUDNN_FRONTEND_INCLUDE)
  message(FATAL_ERROR "cudnn_frontend.h not found: run tools/setup, or set CUDNN_FRONTEND_HOME")
endif()
add_library(ucudnn_cudnn_frontend INTERFACE)
target_include_directories(ucudnn_cudnn_frontend SYSTEM INTERFACE ${UCUDNN_CUDNN_FRONTEND_INCLUDE})
