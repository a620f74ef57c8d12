# cmake -DBUILD=... -DWORK=... -DEXAMPLES=... -DCOMPILER=... -P check.cmake: installs the embeddable library
# into WORK, builds an example against it as an outside project does, and runs it.
function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGN}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --component embed --prefix ${WORK}/installed)
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build -DCMAKE_CXX_COMPILER=${COMPILER}
    -DCMAKE_PREFIX_PATH=${WORK}/installed -DSOURCE=${EXAMPLES}/cache_without_model.cc)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${CMAKE_COMMAND} -DPROGRAM=${WORK}/build/outside -DEXPECTED=${EXAMPLES}/cache_without_model.expected
    -P ${EXAMPLES}/compare_output.cmake)
