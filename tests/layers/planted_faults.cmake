# The check itself can fail: a small tree that is in order passes, and each planted fault is named.
cmake_minimum_required(VERSION 3.25)

# expect(NAME MESSAGE PATH TEXT): a good tree plus one file; MESSAGE is what the check must say, or
# "" if it must pass.
function(expect NAME MESSAGE PATH TEXT)
  set(_root ${WORK}/${NAME})
  file(REMOVE_RECURSE ${_root})
  file(WRITE ${_root}/src/LAYERS "# comment\nlow:  a\nmiddle:  b\nhigh:  c\n")
  file(WRITE ${_root}/src/low/a.cc "#include \"low/a.h\"\n#include <vector>\n")
  file(WRITE ${_root}/src/high/c.cc
    "#include \"lucid/low/a.h\"\n#include \"middle/b.h\"\n#include <fmt/format.h>\n")
  file(WRITE ${_root}/include/lucid/middle/b.h "#include <span>\n#include \"lucid/low/a.h\"\n")
  file(WRITE ${_root}/${PATH} "${TEXT}")
  execute_process(COMMAND ${CMAKE_COMMAND} -DROOT=${_root}
      -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/check_layers.cmake
    RESULT_VARIABLE _code OUTPUT_VARIABLE _output ERROR_VARIABLE _output)
  if(MESSAGE STREQUAL "" AND NOT _code EQUAL 0)
    message(FATAL_ERROR "${NAME}: should pass, but:\n${_output}")
  elseif(NOT MESSAGE STREQUAL "" AND (_code EQUAL 0 OR NOT _output MATCHES "${MESSAGE}"))
    message(FATAL_ERROR "${NAME}: not caught (exit ${_code}, expected '${MESSAGE}'):\n${_output}")
  endif()
endfunction()

expect(good "" src/middle/b.cc "#include \"middle/b.h\"\n#include \"lucid/low/a.h\"\n")
expect(upward_private "may not use 'high'" src/low/b.cc "int x;\n #  include \"high/c.h\"\n")
expect(upward_public "may not use 'high'" src/middle/b.cc "#include \"lucid/high/c.h\"\n")
expect(upward_angle "may not use 'middle'" src/low/b.h "#include <lucid/middle/b.h>\n")
expect(upward_in_public_header "may not use 'high'" include/lucid/low/b.h
  "#include \"lucid/high/c.h\"\n")
expect(unknown_layer "'other' is not a line" src/other/x.cc "#include <vector>\n")
expect(private_in_public "public header includes" include/lucid/high/c.h "#include \"low/a.h\"\n")
foreach(_header Eigen/Dense openssl/evp.h hwy/highway.h nlohmann/json.hpp fmt/format.h CLI/CLI.hpp
        unistd.h)
  expect(third_party "public header includes" include/lucid/low/b.h "#include <${_header}>\n")
endforeach()
string(REPEAT "int x;\n" 800 _lines)
expect(long_enough "" apps/lucid/long.cc "${_lines}")
expect(too_long "801 lines" apps/lucid/long.cc "${_lines}int y;\n")
