# Finds the libraries for building Heddle. All missing required packages are named in one error,
# with the command that installs them. A missing optional package turns its part off, with a
# message.

if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  message(FATAL_ERROR "Heddle is for Linux, and this is ${CMAKE_SYSTEM_NAME}")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "Heddle needs gcc 12 or newer, and ${CMAKE_CXX_COMPILER} is "
                      "gcc ${CMAKE_CXX_COMPILER_VERSION}: set CMAKE_CXX_COMPILER")
endif()

set(_heddle_missing "")   # Debian packages
set(_heddle_absent "")    # what a reader calls them
macro(_heddle_require found what package)
  if(NOT ${found})
    list(APPEND _heddle_absent "${what}")
    list(APPEND _heddle_missing ${package})
  endif()
endmacro()

# The configuration files of some packages report on optional parts that Heddle does not use.
set(_heddle_log_level "${CMAKE_MESSAGE_LOG_LEVEL}")
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)

find_package(Threads REQUIRED)

# LLVM sits in a folder of its version, which llvm-config knows.
find_program(HEDDLE_LLVM_CONFIG NAMES llvm-config-19 llvm-config)
mark_as_advanced(HEDDLE_LLVM_CONFIG)
set(_heddle_llvm_dir "")
if(HEDDLE_LLVM_CONFIG)
  execute_process(COMMAND ${HEDDLE_LLVM_CONFIG} --cmakedir OUTPUT_VARIABLE _heddle_llvm_dir
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_package(LLVM 19.1 QUIET CONFIG HINTS ${_heddle_llvm_dir})
_heddle_require(LLVM_FOUND "LLVM 19" llvm-19-dev)

find_package(Boost QUIET)
find_path(HEDDLE_BGL_INCLUDE_DIR boost/graph/adjacency_list.hpp HINTS ${Boost_INCLUDE_DIRS})
mark_as_advanced(HEDDLE_BGL_INCLUDE_DIR)
_heddle_require(HEDDLE_BGL_INCLUDE_DIR "Boost.Graph" libboost-graph-dev)

# XGBoost's and DLPack's own configuration files name files that Debian does not ship.
find_path(HEDDLE_XGBOOST_INCLUDE_DIR xgboost/c_api.h)
find_library(HEDDLE_XGBOOST_LIBRARY xgboost)
mark_as_advanced(HEDDLE_XGBOOST_INCLUDE_DIR HEDDLE_XGBOOST_LIBRARY)
set(_heddle_xgboost OFF)
if(HEDDLE_XGBOOST_INCLUDE_DIR AND HEDDLE_XGBOOST_LIBRARY)
  set(_heddle_xgboost ON)
endif()
_heddle_require(_heddle_xgboost "XGBoost" libxgboost-dev)

find_path(HEDDLE_DLPACK_INCLUDE_DIR dlpack/dlpack.h)
mark_as_advanced(HEDDLE_DLPACK_INCLUDE_DIR)
_heddle_require(HEDDLE_DLPACK_INCLUDE_DIR "DLPack" libdlpack-dev)

find_package(nlohmann_json QUIET CONFIG)
_heddle_require(nlohmann_json_FOUND "nlohmann-json" nlohmann-json3-dev)
find_package(fmt QUIET CONFIG)
_heddle_require(fmt_FOUND "fmt" libfmt-dev)
find_package(CLI11 QUIET CONFIG)
_heddle_require(CLI11_FOUND "CLI11" libcli11-dev)

if(HEDDLE_BUILD_TESTS)
  find_package(GTest QUIET)
  set(_heddle_gtest OFF)
  if(TARGET GTest::gtest_main AND TARGET GTest::gmock)
    set(_heddle_gtest ON)
  endif()
  _heddle_require(_heddle_gtest "GoogleTest and GoogleMock" "libgtest-dev;libgmock-dev")
endif()

find_package(CUDAToolkit QUIET)
find_package(Protobuf QUIET)
find_file(HEDDLE_ONNX_PROTO onnx/onnx.proto PATHS /usr/include /usr/local/include)
mark_as_advanced(HEDDLE_ONNX_PROTO)

set(CMAKE_MESSAGE_LOG_LEVEL "${_heddle_log_level}")

if(_heddle_missing)
  list(JOIN _heddle_absent ", " _heddle_absent)
  list(JOIN _heddle_missing " " _heddle_missing)
  message(FATAL_ERROR "Heddle needs ${_heddle_absent}, which was not found. Install it with\n"
                      "  sudo apt-get install ${_heddle_missing}\n"
                      "or run scripts/install_deps.sh, which installs all that is missing.")
endif()

# ---- one target each, with the same names whether a package has a configuration file or not ------
# LLVM: the shared library; its headers are seen by the folders that ask for heddle::llvm only.
add_library(heddle_dep_llvm INTERFACE)
add_library(heddle::llvm ALIAS heddle_dep_llvm)
# Not __STDC_LIMIT_MACROS and the like: no C++ since 2011 asks for them, and precompiled headers were made without.
separate_arguments(_heddle_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
list(FILTER _heddle_llvm_definitions EXCLUDE REGEX "__STDC_")
target_include_directories(heddle_dep_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_compile_options(heddle_dep_llvm INTERFACE ${_heddle_llvm_definitions})
target_link_libraries(heddle_dep_llvm INTERFACE LLVM)

add_library(heddle_dep_bgl INTERFACE)
add_library(heddle::bgl ALIAS heddle_dep_bgl)
target_include_directories(heddle_dep_bgl SYSTEM INTERFACE ${HEDDLE_BGL_INCLUDE_DIR})

add_library(heddle_dep_xgboost INTERFACE)
add_library(heddle::xgboost ALIAS heddle_dep_xgboost)
target_include_directories(heddle_dep_xgboost SYSTEM INTERFACE ${HEDDLE_XGBOOST_INCLUDE_DIR})
target_link_libraries(heddle_dep_xgboost INTERFACE ${HEDDLE_XGBOOST_LIBRARY})

add_library(heddle_dep_dlpack INTERFACE)
add_library(heddle::dlpack ALIAS heddle_dep_dlpack)
target_include_directories(heddle_dep_dlpack SYSTEM INTERFACE ${HEDDLE_DLPACK_INCLUDE_DIR})

# ---- optional ------------------------------------------------------------------------------------
include(HeddleOptional)
set(_heddle_not_timed "benchmarks do not compare with it")
# OpenBLAS is opened at run time; its header tells that it is there.
heddle_optional(openblas WHAT OpenBLAS PACKAGE libopenblas-dev WITHOUT ${_heddle_not_timed}
                HEADER cblas.h LIBRARIES openblas)
heddle_optional(onednn WHAT oneDNN PACKAGE libdnnl-dev WITHOUT ${_heddle_not_timed}
                HEADER dnnl.hpp LIBRARIES dnnl)
# xsmmnoblas stands in for a BLAS.
heddle_optional(libxsmm WHAT libxsmm PACKAGE libxsmm-dev WITHOUT ${_heddle_not_timed}
                HEADER libxsmm.h LIBRARIES xsmm xsmmnoblas)
# Debian's package of Halide 14 has its version in its paths.
heddle_optional(halide WHAT Halide PACKAGE libhalide14-0-dev WITHOUT ${_heddle_not_timed}
                HEADER Halide.h LIBRARIES Halide14 SUFFIXES halide14)
find_library(HEDDLE_HALIDE_ADAMS2019 NAMES autoschedule_adams2019 PATH_SUFFIXES halide14)
mark_as_advanced(HEDDLE_HALIDE_ADAMS2019)
if(NOT HEDDLE_HALIDE_ADAMS2019)
  set(HEDDLE_HAVE_HALIDE OFF)
endif()
heddle_optional(z3 WHAT z3 PACKAGE libz3-dev
                WITHOUT "the proofs of the simplifier rules are not run"
                HEADER z3++.h LIBRARIES z3)

set(HEDDLE_HAVE_CUDA_TOOLKIT OFF)
set(HEDDLE_HAVE_CUBLAS OFF)
if(CUDAToolkit_FOUND)
  set(HEDDLE_HAVE_CUDA_TOOLKIT ON)
  find_path(HEDDLE_CUBLAS_INCLUDE_DIR cublasLt.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
  mark_as_advanced(HEDDLE_CUBLAS_INCLUDE_DIR)
  if(HEDDLE_CUBLAS_INCLUDE_DIR)
    set(HEDDLE_HAVE_CUBLAS ON)
  endif()
else()
  message(STATUS "CUDA toolkit not found: kernels for NVIDIA GPUs are not compiled in the tests")
endif()

set(HEDDLE_HAVE_ONNX OFF)
if(HEDDLE_ONNX_PROTO AND TARGET protobuf::libprotobuf-lite AND TARGET protobuf::protoc)
  set(HEDDLE_HAVE_ONNX ON)
else()
  message(STATUS "protobuf or ONNX's schema not found (libprotobuf-dev, protobuf-compiler, "
                 "libonnx-dev): ONNX files are not imported")
endif()
