# Configures for a system that is not Linux: one line says why that is an error (docs/limits.md).
file(REMOVE_RECURSE ${WORK})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${HEDDLE_SOURCE} -B ${WORK} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX}
          -DCMAKE_SYSTEM_NAME=FreeBSD
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
file(REMOVE_RECURSE ${WORK})
if(status EQUAL 0 OR NOT output MATCHES "Heddle is for Linux, and this is FreeBSD")
  message(FATAL_ERROR "another system is taken (${status}):\n${output}")
endif()
