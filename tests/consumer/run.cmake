# Installs the build into a prefix of its own, moves that prefix (an installed Heddle must not point
# back to where it was built), builds this project against it, and runs it.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${ARGN}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(work ${HEDDLE_BUILD}/consumer)
file(REMOVE_RECURSE ${work})
run(${CMAKE_COMMAND} --install ${HEDDLE_BUILD} --prefix ${work}/first)
file(RENAME ${work}/first ${work}/prefix)
run(${CMAKE_COMMAND} -S ${HEDDLE_CONSUMER} -B ${work}/build -G ${GENERATOR}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${work}/prefix -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${work}/build)
foreach(program consumer runtime_consumer)
  run(${work}/build/${program})
  message(STATUS "${output}")
endforeach()
if(EXISTS ${work}/prefix/bin/heddle)
  run(${work}/prefix/bin/heddle --help)
endif()
