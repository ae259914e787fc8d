# heddle_optional(<name> WHAT text PACKAGE debian-package WITHOUT text HEADER file [LIBRARIES name...]
#                 [SUFFIXES folder...])
# An optional outside library. It is looked for by its header and libraries, never by its own package
# configuration, which may stop CMake for what we do not need; and a program that uses it is compiled and
# linked. Sets HEDDLE_HAVE_<NAME>, and defines the target heddle::<name> where that is ON. Else one line
# says what is off.
function(heddle_optional name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "WHAT;PACKAGE;WITHOUT;HEADER" "LIBRARIES;SUFFIXES")
  string(TOUPPER ${name} upper)
  set(HEDDLE_HAVE_${upper} OFF PARENT_SCOPE)

  find_path(HEDDLE_${upper}_INCLUDE_DIR ${arg_HEADER} PATH_SUFFIXES ${arg_SUFFIXES})
  mark_as_advanced(HEDDLE_${upper}_INCLUDE_DIR)
  set(found ${HEDDLE_${upper}_INCLUDE_DIR})
  set(libraries "")
  foreach(library IN LISTS arg_LIBRARIES)
    string(MAKE_C_IDENTIFIER HEDDLE_${upper}_LIBRARY_${library} variable)
    find_library(${variable} NAMES ${library} PATH_SUFFIXES ${arg_SUFFIXES})
    mark_as_advanced(${variable})
    if(NOT ${variable})
      set(found OFF)
    endif()
    list(APPEND libraries ${${variable}})
  endforeach()
  if(NOT found)
    message(STATUS "${arg_WHAT} not found (${arg_PACKAGE}): ${arg_WITHOUT}")
    return()
  endif()

  if(NOT HEDDLE_${upper}_WORKS)  # tried once
    try_compile(HEDDLE_${upper}_WORKS
      SOURCE_FROM_CONTENT ${name}.cpp "#include <${arg_HEADER}>\nint main() {}\n"
      CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${HEDDLE_${upper}_INCLUDE_DIR}
      LINK_LIBRARIES ${libraries} ${CMAKE_DL_LIBS} Threads::Threads
      CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
      OUTPUT_VARIABLE output)
  endif()
  if(NOT HEDDLE_${upper}_WORKS)
    unset(HEDDLE_${upper}_WORKS CACHE)  # looked at again next time: it may be mended then
    string(REGEX MATCH "[^\n]*(error|undefined|cannot find)[^\n]*" why "${output}")
    message(STATUS "${arg_WHAT} does not compile (${arg_PACKAGE}): ${arg_WITHOUT} [${why}]")
    return()
  endif()

  add_library(heddle_dep_${name} INTERFACE)
  add_library(heddle::${name} ALIAS heddle_dep_${name})
  target_include_directories(heddle_dep_${name} SYSTEM INTERFACE ${HEDDLE_${upper}_INCLUDE_DIR})
  target_link_libraries(heddle_dep_${name} INTERFACE ${libraries})
  set(HEDDLE_HAVE_${upper} ON PARENT_SCOPE)
endfunction()
