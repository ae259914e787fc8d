# The functions that the CMakeLists.txt of the folders use.

# The compile options of every target: warnings, sanitizers and -fPIC.
function(heddle_compile_options target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror=switch)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # gcc 12 reports overlapping copies inside std::string's operator+ (its bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict)
    if(HEDDLE_PRECOMPILE)
      # gcc does not treat precompiled headers as system headers, and warns about the inside of
      # std::string.
      target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
    endif()
  endif()
  if(HEDDLE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(HEDDLE_SANITIZE)
    # Undefined behaviour ends the program, as an invalid address does, so that a test cannot pass
    # with it.
    target_compile_options(${target} PRIVATE -fsanitize=${HEDDLE_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # This check reads the words before each function that is called by a pointer. Before a kernel
      # that was compiled at run time there may be no page.
      target_compile_options(${target} PRIVATE -fno-sanitize=function)
    endif()
    target_link_options(${target} PRIVATE -fsanitize=${HEDDLE_SANITIZE})
  endif()
  # The property POSITION_INDEPENDENT_CODE means -fPIE for programs, which then could not use the
  # headers that are precompiled with -fPIC.
  target_compile_options(${target} PRIVATE -fPIC)
  if(HEDDLE_PRECOMPILE)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -fpch-preprocess)  # what ccache reads them by
    elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      # With this option equal headers give equal bytes, so that ccache finds them.
      target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    endif()
    if(NOT target STREQUAL "heddle_precompiled")
      target_precompile_headers(${target} REUSE_FROM heddle_precompiled)
    endif()
  endif()
endfunction()

# The standard library's headers, compiled once for all targets. Headers of Heddle are not among
# them, because each change would compile everything again. Sources still include what they use
# (HEDDLE_PRECOMPILE=OFF checks this).
if(HEDDLE_PRECOMPILE)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "// A target has a source.\n")
  add_library(heddle_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  target_precompile_headers(heddle_precompiled PRIVATE
    <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <filesystem> <functional> <map> <memory> <mutex>
    <optional> <set> <span> <sstream> <string> <string_view> <thread> <tuple> <unordered_map> <unordered_set>
    <utility> <variant> <vector>)
  heddle_compile_options(heddle_precompiled)
endif()

# A library that outside projects link with.
function(heddle_public_library target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION}
                                             SOVERSION ${PROJECT_VERSION_MAJOR})
  if(HEDDLE_SANITIZE)
    target_link_options(${target} PUBLIC $<BUILD_INTERFACE:-fsanitize=${HEDDLE_SANITIZE}>)
  endif()
endfunction()

# heddle_folder(<name> SOURCES a.cpp b.cpp [DEPS lower_folder...] [LIBS target...]
#               [PUBLIC_HEADERS_ONLY])
# One folder of the compiler, as the OBJECT library heddle_<name>; its objects become part of
# libheddle (those of support and runtime also of libheddle_runtime). DEPS are the folders it uses;
# they must have been added before, which makes a cycle a configure error. LIBS are outside libraries
# (heddle::llvm, heddle::bgl, heddle::xgboost, heddle::dlpack, nlohmann_json::nlohmann_json,
# fmt::fmt), seen by this folder's sources only.
function(heddle_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PUBLIC_HEADERS_ONLY" "" "SOURCES;DEPS;LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "heddle_folder(${name}): SOURCES is needed, not '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  foreach(dep IN LISTS arg_DEPS)
    if(NOT TARGET heddle_${dep})
      message(FATAL_ERROR "heddle_folder(${name}): DEPS names '${dep}', which is no folder below it")
    endif()
  endforeach()
  add_library(heddle_${name} OBJECT ${arg_SOURCES})
  heddle_compile_options(heddle_${name})
  if(HEDDLE_FUZZ AND name IN_LIST HEDDLE_FUZZED_FOLDERS)
    # -fsanitize=fuzzer-no-link in parts: as a whole it would refuse the precompiled headers.
    target_compile_options(heddle_${name} PRIVATE
      -fsanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table)
  endif()
  target_include_directories(heddle_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  if(NOT arg_PUBLIC_HEADERS_ONLY)
    target_include_directories(heddle_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  endif()
  target_link_libraries(heddle_${name} PRIVATE ${arg_LIBS})

  set(libraries heddle)
  if(name STREQUAL "support" OR name STREQUAL "runtime")
    list(APPEND libraries heddle_rt)
    # An exported library takes of these objects only what it calls (network/export/link_library.cpp).
    target_compile_options(heddle_${name} PRIVATE -ffunction-sections -fdata-sections)
  endif()
  foreach(library IN LISTS libraries)
    target_sources(${library} PRIVATE $<TARGET_OBJECTS:heddle_${name}>)
    foreach(lib IN LISTS arg_LIBS)
      target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:${lib}>)
    endforeach()
  endforeach()
endfunction()

# heddle_test(<name> SOURCES a_test.cpp ... [LIBS target...] [LABELS unit...] [TIMEOUT seconds]
#             [RUNTIME_ONLY] [SERIAL])
# One GoogleTest program, <build>/bin/<name>, and one ctest of the same name. It may include internal
# headers of src/. RUNTIME_ONLY links libheddle_runtime in place of libheddle. SERIAL: runs alone
# (it measures time).
function(heddle_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RUNTIME_ONLY;SERIAL" "TIMEOUT" "SOURCES;LIBS;LABELS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "heddle_test(${name}): SOURCES is needed, not '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set(library heddle)
  if(arg_RUNTIME_ONLY)
    set(library heddle_rt)
  endif()
  add_executable(${name} ${arg_SOURCES})
  heddle_compile_options(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${library} ${arg_LIBS} heddle_test_paths GTest::gmock GTest::gtest_main)
  # --gtest_brief keeps the log of a passing run short; a failure still prints in full.
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1)
  # Tests use no shipped records and no code of an earlier run.
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                                          ENVIRONMENT "HEDDLE_TOPHUB=off;HEDDLE_LOG_FILE=;HEDDLE_CACHE=off")
  if(arg_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# heddle_program(<target> SOURCES main.cpp ... [LIBS target...] [OUTPUT_NAME name])
# An executable in <build>/bin that uses Heddle as an outsider does: public headers only.
function(heddle_program target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_NAME" "SOURCES;LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "heddle_program(${target}): SOURCES is needed")
  endif()
  add_executable(${target} ${arg_SOURCES})
  heddle_compile_options(${target})
  target_link_libraries(${target} PRIVATE heddle ${arg_LIBS})
  if(arg_OUTPUT_NAME)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${arg_OUTPUT_NAME})
  endif()
endfunction()
