# cmake -DPROGRAM=... -DWORK=... -DSOURCE=... -P check_quickstart.cmake: the quickstart prints a class,
# and the README shows exactly this program (every line indented by four spaces).
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
execute_process(COMMAND ${PROGRAM} WORKING_DIRECTORY ${WORK}
  RESULT_VARIABLE _code OUTPUT_VARIABLE _output ERROR_VARIABLE _complaint)
if(NOT _code EQUAL 0 OR NOT _output MATCHES "^class [01]\n$")
  message(FATAL_ERROR "exit ${_code}, printed '${_output}', complained '${_complaint}'")
endif()

file(READ ${SOURCE}/examples/quickstart.cc _program)
string(REGEX REPLACE "\n([^\n])" "\n    \\1" _quoted "\n${_program}")
file(READ ${SOURCE}/README.md _readme)
string(FIND "${_readme}" "${_quoted}" _at)
if(_at EQUAL -1)
  message(FATAL_ERROR "README.md does not quote examples/quickstart.cc as it is:\n${_quoted}")
endif()
