# cmake -DPROGRAM=... -DEXPECTED=... -P compare_output.cmake: runs the program; fails when it fails, or
# prints anything else than the file.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed ERROR_VARIABLE complaint RESULT_VARIABLE status)
file(READ ${EXPECTED} expected)
if(NOT status EQUAL 0 OR NOT printed STREQUAL expected)
  message(FATAL_ERROR "exit status ${status}\n${complaint}printed:\n${printed}\nexpected:\n${expected}")
endif()
