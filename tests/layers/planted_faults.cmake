# The check itself can fail: a small tree that is in order passes, and each planted fault is named.
cmake_minimum_required(VERSION 3.25)

# expect(NAME MESSAGE PATH TEXT): a good tree plus one file; MESSAGE is what the check must say, or
# "" if it must pass.
function(expect NAME MESSAGE PATH TEXT)
  set(_root ${WORK}/${NAME})
  if(NOT "KEEP" IN_LIST ARGN)  # what expect_files wrote
    file(REMOVE_RECURSE ${_root})
  endif()
  file(WRITE ${_root}/src/LAYERS "# comment\nlow:  a\nmiddle:  b\nhigh:  c\n")
  file(WRITE ${_root}/src/low/a.cc "#include \"low/a.h\"\n#include <vector>\n")
  file(WRITE ${_root}/src/high/c.cc
    "#include \"lucid/low/a.h\"\n#include \"middle/b.h\"\n#include <fmt/format.h>\n")
  file(WRITE ${_root}/include/lucid/middle/b.h "#include <span>\n#include \"lucid/low/a.h\"\n")
  file(WRITE ${_root}/src/low/taken.h
    "namespace lucid {\nstruct Taken {\n  int x;\n};\nint Find(int x);\n}\n")
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
expect(all_public_headers "" include/lucid/lucid.h
  "#include \"lucid/low/a.h\"\n#include \"lucid/middle/b.h\"\n")
expect(a_public_header_is_missing "does not include lucid/middle/b.h" include/lucid/lucid.h
  "#include \"lucid/low/a.h\"\n")
# The good tree has two files of the layer `low`; 38 more are as many as may be.
function(expect_files NAME MESSAGE COUNT)
  foreach(_i RANGE 1 ${COUNT})
    file(WRITE ${WORK}/${NAME}/src/low/file${_i}.h "\n")
  endforeach()
  file(WRITE ${WORK}/${NAME}/src/low/more_test.cc "\n")
  expect(${NAME} "${MESSAGE}" src/low/test_support.h "\n" KEEP)
endfunction()
expect_files(as_many_files "" 38)
expect_files(too_many_files "low: 41 files" 39)

# A name belongs to one layer. The good tree has lucid::Taken, a type, and lucid::Find(int).
expect(type_twice "Taken is a type here" src/middle/b.h "namespace lucid {\nclass Taken final {\n")
expect(type_and_enum "Taken is a type here" src/middle/b.h
  "namespace lucid {\nenum class Taken { kA };\n")
expect(function_and_type "lucid::Taken is a" include/lucid/high/c.h
  "namespace lucid {\nint Taken(int x,\n")
expect(type_and_function "lucid::Find is a" src/high/b.h "namespace lucid {\nstruct Find {\n")
expect(overload "" src/middle/b.h "namespace lucid {\nint Find(double x);\n")
expect(forward_declaration "" src/middle/b.h "namespace lucid {\nclass Taken;\n")
expect(other_namespace "" src/middle/b.h "namespace lucid::middle {\nstruct Taken {\n")
expect(nested_type "" src/middle/b.h "namespace lucid {\nstruct Other {\n  struct Taken {\n")
string(REPEAT "int x;\n" 800 _lines)
expect(long_enough "" apps/lucid/long.cc "${_lines}")
expect(too_long "801 lines" apps/lucid/long.cc "${_lines}int y;\n")
