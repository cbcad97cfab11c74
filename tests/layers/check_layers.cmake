# cmake -DROOT=... -P check_layers.cmake: refuses
#   - an #include that goes up src/LAYERS, among src/<layer>/ and include/lucid/<layer>/,
#   - in a public header: anything but other public headers and the C++ standard library,
#   - a source file of more than 800 lines.
cmake_minimum_required(VERSION 3.25)
set(MAX_LINES 800)

file(STRINGS ${ROOT}/src/LAYERS _lines REGEX "^[a-z]+:")
list(TRANSFORM _lines REPLACE ":.*" "" OUTPUT_VARIABLE LAYERS)
if(NOT LAYERS)
  message(FATAL_ERROR "no layer in ${ROOT}/src/LAYERS")
endif()
set_property(GLOBAL PROPERTY faults 0)

function(fault MESSAGE)
  message("${MESSAGE}")
  get_property(_count GLOBAL PROPERTY faults)
  math(EXPR _count "${_count} + 1")
  set_property(GLOBAL PROPERTY faults ${_count})
endfunction()

# Calls check(FILE INCLUDED) with `"path"` or `<path>` for every #include of a file.
function(check_includes FILE)
  file(STRINGS ${ROOT}/${FILE} _includes REGEX "^[ \t]*#[ \t]*include[ \t]*[<\"]")
  foreach(_include IN LISTS _includes)
    string(REGEX MATCH "<[^>]*>|\"[^\"]*\"" _included "${_include}")
    check_direction(${FILE} "${_included}")
    if(FILE MATCHES "^include/")
      check_public(${FILE} "${_included}")
    endif()
  endforeach()
endfunction()

function(check_direction FILE INCLUDED)
  string(REGEX REPLACE "^(src|include/lucid)/([^/]*)/.*" "\\2" _own "${FILE}")
  list(FIND LAYERS "${_own}" _own_index)
  if(_own_index EQUAL -1)
    fault("${FILE}: '${_own}' is not a line of src/LAYERS")
    return()
  endif()
  string(REGEX REPLACE "^.(lucid/)?([^/]*)/.*" "\\2" _other "${INCLUDED}")
  list(FIND LAYERS "${_other}" _other_index)
  if(_other_index GREATER _own_index)
    fault("${FILE}: upward #include of ${INCLUDED}: '${_own}' may not use '${_other}' (src/LAYERS)")
  endif()
endfunction()

function(check_public FILE INCLUDED)
  if(NOT INCLUDED MATCHES "^\"lucid/[a-z]+/[a-z0-9_]+\\.h\"$" AND NOT INCLUDED MATCHES "^<[a-z0-9_]+>$")
    fault("${FILE}: public header includes ${INCLUDED}: only \"lucid/...\" and the standard library")
  endif()
endfunction()

file(GLOB_RECURSE _layered RELATIVE ${ROOT}
  ${ROOT}/src/*.h ${ROOT}/src/*.cc ${ROOT}/include/lucid/*.h)
foreach(_file IN LISTS _layered)
  check_includes(${_file})
endforeach()

file(GLOB_RECURSE _all RELATIVE ${ROOT}
  ${ROOT}/src/* ${ROOT}/include/* ${ROOT}/apps/* ${ROOT}/tests/* ${ROOT}/bench/*)
list(FILTER _all INCLUDE REGEX "\\.(cc|h|cmake|py|sh)$|CMakeLists\\.txt$")
foreach(_file IN LISTS _all)
  file(READ ${ROOT}/${_file} _text)
  string(REGEX MATCHALL "\n" _newlines "${_text}")
  list(LENGTH _newlines _count)
  if(_count GREATER MAX_LINES)
    fault("${_file}: ${_count} lines, at most ${MAX_LINES} are allowed")
  endif()
endforeach()

list(LENGTH _layered _layered_count)
get_property(_faults GLOBAL PROPERTY faults)
if(_faults GREATER 0 OR _layered_count EQUAL 0)
  message(FATAL_ERROR "${_faults} faults in ${_layered_count} layered files")
endif()
message(STATUS "${_layered_count} layered files, no fault")
