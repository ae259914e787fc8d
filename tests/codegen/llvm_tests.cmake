# Included by CMakeLists.txt of this folder.
set(_llvm_tests llvm_dot_test.cpp llvm_expected_test.cpp llvm_gemm_test.cpp llvm_masked_loads_test.cpp llvm_masked_test.cpp llvm_math_test.cpp llvm_nests_test.cpp
                llvm_object_key_test.cpp llvm_select_test.cpp
                llvm_statements_test.cpp llvm_tables_test.cpp llvm_targets_test.cpp llvm_types_test.cpp)
heddle_test(llvm_test SOURCES ${_llvm_tests})
# The same program as a machine without AVX and without half-precision conversions.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_test(NAME llvm_test_sse COMMAND llvm_test --gtest_brief=1)
  set_tests_properties(llvm_test_sse PROPERTIES LABELS unit TIMEOUT 300
                       ENVIRONMENT "HEDDLE_TEST_TARGET=llvm -mcpu=x86-64;HEDDLE_VERIFY=1")
endif()
heddle_test(llvm_memory_test SOURCES llvm_memory_test.cpp LIBS heddle::llvm)
