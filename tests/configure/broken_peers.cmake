# Configures with peers that are installed but lack something themselves: CMake goes on, and one line each
# says what is off. One lacks a header that its own needs, one a symbol's library, one has a package
# configuration that stops CMake.
file(REMOVE_RECURSE ${WORK})
file(WRITE ${WORK}/prefix/include/dnnl.hpp "#include <a_header_that_is_nowhere.h>\n")
file(WRITE ${WORK}/prefix/lib/libdnnl.so "")
file(WRITE ${WORK}/prefix/include/libxsmm.h "extern \"C\" int nowhere(); static int used = nowhere();\n")
file(WRITE ${WORK}/prefix/lib/libxsmm.so "INPUT(-lm)\n")
file(WRITE ${WORK}/prefix/lib/libxsmmnoblas.so "INPUT(-lm)\n")
foreach(package DNNL OpenBLAS)
  file(WRITE ${WORK}/prefix/lib/cmake/${package}/${package}Config.cmake
       "message(FATAL_ERROR \"could not find OpenCL\")\n")
endforeach()

execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${HEDDLE_SOURCE} -B ${WORK}/build -G ${GENERATOR}
          -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${WORK}/prefix
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "a broken peer stops CMake (${status}):\n${output}")
endif()
foreach(line "oneDNN does not compile .*a_header_that_is_nowhere" "libxsmm does not compile .*nowhere")
  if(NOT output MATCHES "${line}")
    message(FATAL_ERROR "nothing says '${line}':\n${output}")
  endif()
endforeach()
file(REMOVE_RECURSE ${WORK})
