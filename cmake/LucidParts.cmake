# Parts that can be left out. lucid_part(NAME WHAT NEEDS) declares the option LUCID_<NAME>:
#   AUTO (the default)  the part is in if what it needs is there,
#   ON                  it is an error if that is not there,
#   OFF                 the part is left out, and nothing is looked for.
# It sets LUCID_<NAME>_WANTED, which says whether to look for what the part needs.
# lucid_part_found(NAME TARGET...) tells which targets that is: if they are all there, it sets
# LUCID_HAS_<NAME>, and LUCID_<NAME>_LIBS to them. lucid_part_source(VARIABLE NAME FILE) gives FILE.cc,
# or no_FILE.cc, which says in one line that the part was left out.
# lucid_parts_summary() prints which parts are in, and what the others need.
set(LUCID_PARTS)

macro(lucid_part NAME WHAT NEEDS)
  set(LUCID_${NAME} AUTO CACHE STRING "${WHAT}: AUTO, ON or OFF")
  set_property(CACHE LUCID_${NAME} PROPERTY STRINGS AUTO ON OFF)
  list(APPEND LUCID_PARTS ${NAME})
  set(LUCID_${NAME}_WHAT "${WHAT}")
  set(LUCID_${NAME}_NEEDS "${NEEDS}")
  string(TOUPPER "${LUCID_${NAME}}" _setting)
  if(_setting STREQUAL "AUTO" OR _setting)
    set(LUCID_${NAME}_WANTED ON)
  else()
    set(LUCID_${NAME}_WANTED OFF)
  endif()
endmacro()

macro(lucid_part_found NAME)
  set(LUCID_HAS_${NAME} ${LUCID_${NAME}_WANTED})
  foreach(_target IN ITEMS ${ARGN})
    if(NOT TARGET ${_target})
      set(LUCID_HAS_${NAME} OFF)
    endif()
  endforeach()
  set(LUCID_${NAME}_LIBS)
  if(LUCID_HAS_${NAME})
    set(LUCID_${NAME}_LIBS ${ARGN})
  else()
    string(TOUPPER "${LUCID_${NAME}}" _setting)
    if(LUCID_${NAME}_WANTED AND NOT _setting STREQUAL "AUTO")
      message(FATAL_ERROR "LUCID_${NAME} is ON (${LUCID_${NAME}_WHAT}), and this is missing: "
        "${LUCID_${NAME}_NEEDS}")
    endif()
  endif()
endmacro()

function(lucid_part_source VARIABLE NAME FILE)
  if(LUCID_HAS_${NAME})
    set(${VARIABLE} ${FILE}.cc PARENT_SCOPE)
  else()
    set(${VARIABLE} no_${FILE}.cc PARENT_SCOPE)
  endif()
endfunction()

function(lucid_parts_summary)
  message(STATUS "Parts of this build (-DLUCID_NAME=ON|OFF chooses):")
  foreach(_part IN LISTS LUCID_PARTS)
    if(LUCID_HAS_${_part})
      message(STATUS "  ${_part}: in; ${LUCID_${_part}_WHAT}")
    elseif(LUCID_${_part}_WANTED)
      message(STATUS "  ${_part}: left out; ${LUCID_${_part}_WHAT}; needs ${LUCID_${_part}_NEEDS}")
    else()
      message(STATUS "  ${_part}: off; ${LUCID_${_part}_WHAT}; needs ${LUCID_${_part}_NEEDS}")
    endif()
  endforeach()
endfunction()
