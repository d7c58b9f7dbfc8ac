# Assigns each test to a group, which says when tools/check runs the test:
#   threads  always. The tested code may run on several threads; so --full runs these tests under ThreadSanitizer, too
#   release  always
#   full     only with --full, which builds everything
# The targets threads_tests and release_tests build what these groups need. CTest's labels have the groups' names. This
# file needs nothing else of ucudnn, so that tests/integration/repository can configure a project with it.
set(UCUDNN_TEST_GROUPS threads release full)

# ucudnn_tests_of(GROUP [REGEX]): assigns all targets and tests that this folder has so far to GROUP. With REGEX, assigns
# only targets and tests with matching names.
function(ucudnn_tests_of group)
  if(NOT group IN_LIST UCUDNN_TEST_GROUPS)
    message(FATAL_ERROR "  ${CMAKE_CURRENT_SOURCE_DIR}: ucudnn_tests_of(${group}): the groups are ${UCUDNN_TEST_GROUPS}")
  endif()
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  get_property(tests DIRECTORY PROPERTY TESTS)
  if(ARGN)
    list(FILTER targets INCLUDE REGEX ${ARGN})
    list(FILTER tests INCLUDE REGEX ${ARGN})
    if(NOT tests)
      message(FATAL_ERROR "  ${CMAKE_CURRENT_SOURCE_DIR}: ucudnn_tests_of(${group} \"${ARGN}\") matches no test of this folder")
    endif()
  endif()
  if(targets AND TARGET ${group}_tests)
    add_dependencies(${group}_tests ${targets})
  endif()
  if(tests)
    set_property(TEST ${tests} APPEND PROPERTY LABELS ${group})
    set_property(GLOBAL APPEND PROPERTY UCUDNN_GROUPED_TESTS ${tests})
  endif()
endfunction()

# ucudnn_tests_need(GROUP FOLDERS...): makes GROUP_tests build all targets of these folders and their subfolders.
function(ucudnn_tests_need group)
  foreach(folder IN LISTS ARGN)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    if(targets)
      add_dependencies(${group}_tests ${targets})
    endif()
    get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    ucudnn_tests_need(${group} ${folders})
  endforeach()
endfunction()

# ucudnn_every_test_has_its_group(FOLDERS...): the configure step fails if a test in these folders or their subfolders
# is in no group. Must be called after all folders have been read. The messages are indented, because CMake wraps
# other lines.
function(ucudnn_every_test_has_its_group)
  get_property(grouped GLOBAL PROPERTY UCUDNN_GROUPED_TESTS)
  foreach(folder IN LISTS ARGN)
    get_property(tests DIRECTORY ${folder} PROPERTY TESTS)
    foreach(test IN LISTS tests)
      if(NOT test IN_LIST grouped)
        message(SEND_ERROR "  test ${test} (${folder}) is of no group, so tools/check would never run it: ucudnn_tests_of("
          "threads|release|full) in its folder's CMakeLists.txt says when it runs")
      endif()
    endforeach()
    get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    ucudnn_every_test_has_its_group(${folders})
  endforeach()
endfunction()
