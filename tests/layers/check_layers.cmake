# cmake -DROOT=... -P check_layers.cmake: refuses
#   - an #include that goes up src/LAYERS, among src/<layer>/ and include/lucid/<layer>/,
#   - in a public header: anything but other public headers and the C++ standard library,
#   - a type that headers of two layers define, or that has the name of another layer's function: a
#     program that includes both headers would not compile, and one that links both has undefined
#     behaviour,
#   - a layer of more than 40 files (those of tests aside),
#   - a source file of more than 800 lines.
cmake_minimum_required(VERSION 3.25)
set(MAX_LINES 800)
set(MAX_FILES 40)

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
  if(FILE STREQUAL "include/lucid/lucid.h")  # the whole public API: above every layer
    return()
  endif()
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

# Calls fault() if a header defines a type whose name another layer has taken. Functions may share a
# name, because they may be overloads; a function and a type may not.
function(check_names FILE)
  string(REGEX REPLACE "^(src|include/lucid)/([^/]*)/.*" "\\2" _own "${FILE}")
  file(STRINGS ${ROOT}/${FILE} _opened REGEX "^namespace [a-z_:]+ {")
  string(REGEX MATCH "[a-z_:]+ {" _namespace "${_opened};")
  string(REPLACE " {" "" _namespace "${_namespace}")
  file(STRINGS ${ROOT}/${FILE} _types REGEX "^(class|struct|enum|enum class) [A-Z][A-Za-z0-9]*[^;]*{")
  foreach(_line IN LISTS _types)
    string(REGEX REPLACE "^(enum class|class|struct|enum) ([A-Za-z0-9]+).*" "\\2" _name "${_line}")
    take_name("${_namespace}::${_name}" type)
  endforeach()
  file(STRINGS ${ROOT}/${FILE} _functions REGEX "^[A-Za-z][^(;]* [A-Z][A-Za-z0-9]*\\(")
  foreach(_line IN LISTS _functions)
    string(REGEX REPLACE "^[^(]* ([A-Z][A-Za-z0-9]*)\\(.*" "\\1" _name "${_line}")
    take_name("${_namespace}::${_name}" function)
  endforeach()
endfunction()

# Of check_names, whose FILE and _own it reads.
macro(take_name NAME KIND)
  foreach(_other_kind type function)
    get_property(_taken GLOBAL PROPERTY "${NAME} ${_other_kind}")
    foreach(_file IN LISTS _taken)
      string(REGEX REPLACE "^(src|include/lucid)/([^/]*)/.*" "\\2" _layer "${_file}")
      if(NOT "${_other_kind} ${KIND}" STREQUAL "function function" AND NOT _layer STREQUAL _own)
        fault("${FILE}: ${NAME} is a ${KIND} here and a ${_other_kind} in ${_file}")
      endif()
    endforeach()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY "${NAME} ${KIND}" ${FILE})
endmacro()

file(GLOB_RECURSE _layered RELATIVE ${ROOT}
  ${ROOT}/src/*.h ${ROOT}/src/*.cc ${ROOT}/include/lucid/*.h)
foreach(_file IN LISTS _layered)
  check_includes(${_file})
  if(_file MATCHES "\\.h$")
    check_names(${_file})
  endif()
endforeach()

foreach(_layer IN LISTS LAYERS)
  set(_files ${_layered})
  list(FILTER _files INCLUDE REGEX "^(src|include/lucid)/${_layer}/")
  list(FILTER _files EXCLUDE REGEX "_test\\.cc$|test_support\\.h$")
  list(LENGTH _files _count)
  if(_count GREATER MAX_FILES)
    fault("${_layer}: ${_count} files, at most ${MAX_FILES} are allowed in a layer")
  endif()
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
