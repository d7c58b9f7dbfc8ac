# Finds CUDA 13 and cuDNN 9: an installed toolkit if there is one, else NVIDIA's wheels, which tools/setup unpacks into
# build/deps. Sets UCUDNN_CUDA_INCLUDE, UCUDNN_REAL_CUDART, UCUDNN_CUDNN_INCLUDE and UCUDNN_REAL_CUDNN_LIBRARY unless
# they are set already. With the environment variable UCUDNN_IGNORE_TOOLKIT=1, only the wheels are used.
#
# This file is also a script, so that tools/setup finds what the build will find. `cmake -P` on it prints what is
# missing ("cuda", "cudnn") and fails. If nothing is missing, it prints the paths of the two libraries.
get_filename_component(_source ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
set(_cuda_roots ${_source}/build/deps/nvidia/cu13)
set(_cudnn_roots ${_source}/build/deps/nvidia/cudnn)
if(NOT "$ENV{UCUDNN_IGNORE_TOOLKIT}" STREQUAL "1")
  list(PREPEND _cuda_roots $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda /usr/local/cuda-13)
  list(PREPEND _cudnn_roots $ENV{CUDNN_HOME} $ENV{CUDNN_PATH} $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda /usr)
endif()

# Caches the folder of `header` and the path of `library`, from the first of `roots` that has both. The header must
# define `macro` as `version` (a regular expression), and the headers in ARGN must be in the same folder.
function(_ucudnn_search include_variable library_variable roots header macro version library)
  foreach(root IN LISTS ${roots})
    unset(_include)
    unset(_library)
    find_path(_include ${header} NO_CACHE NO_DEFAULT_PATH PATHS ${root}
      PATH_SUFFIXES include include/x86_64-linux-gnu targets/x86_64-linux/include)
    find_file(_library ${library} NO_CACHE NO_DEFAULT_PATH PATHS ${root}
      PATH_SUFFIXES lib lib64 lib/x86_64-linux-gnu targets/x86_64-linux/lib)
    if(_include AND _library)
      file(STRINGS ${_include}/${header} _line REGEX "^#define +${macro} +${version}")
      foreach(_other IN LISTS ARGN)
        if(NOT EXISTS ${_include}/${_other})
          set(_line "")
        endif()
      endforeach()
      if(_line)
        set(${include_variable} ${_include} CACHE PATH "Folder of ${header}")
        set(${library_variable} ${_library} CACHE FILEPATH "The real ${library}")
        return()
      endif()
    endif()
  endforeach()
endfunction()

# Forgets cached paths that no longer exist. Otherwise removing build/deps would make a build folder unusable.
foreach(_variable UCUDNN_CUDA_INCLUDE UCUDNN_REAL_CUDART UCUDNN_CUDNN_INCLUDE UCUDNN_REAL_CUDNN_LIBRARY)
  if(DEFINED ${_variable} AND NOT EXISTS "${${_variable}}")
    unset(${_variable} CACHE)
  endif()
endforeach()
if(NOT UCUDNN_CUDA_INCLUDE OR NOT UCUDNN_REAL_CUDART)
  _ucudnn_search(UCUDNN_CUDA_INCLUDE UCUDNN_REAL_CUDART _cuda_roots cuda.h CUDA_VERSION "13[0-9][0-9][0-9]" libcudart.so.13
    nv/target)
endif()
if(NOT UCUDNN_CUDNN_INCLUDE OR NOT UCUDNN_REAL_CUDNN_LIBRARY)
  _ucudnn_search(UCUDNN_CUDNN_INCLUDE UCUDNN_REAL_CUDNN_LIBRARY _cudnn_roots cudnn_version.h CUDNN_MAJOR 9 libcudnn.so.9)
endif()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  set(_missing "")
  if(NOT UCUDNN_REAL_CUDART)
    string(APPEND _missing " cuda")
  endif()
  if(NOT UCUDNN_REAL_CUDNN_LIBRARY)
    string(APPEND _missing " cudnn")
  endif()
  if(_missing)
    message(FATAL_ERROR "missing:${_missing}")
  endif()
  message("${UCUDNN_REAL_CUDART} ${UCUDNN_REAL_CUDNN_LIBRARY}")
endif()
