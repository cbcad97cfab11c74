# HiGHS, the LP solver, from 1.10: highs::highs. The header and the library are looked for, not its
# CMake package: that of Debian 13 points into the folder in which Debian built it and ends every
# configuration that reads it. Besides the usual places, the user's cache is searched, where
# tools/get_highs puts HiGHS. This file is installed with LUCID, for whoever links its static
# libraries.
set(_highs_cache "$ENV{XDG_CACHE_HOME}")
if(_highs_cache STREQUAL "")
  set(_highs_cache "$ENV{HOME}/.cache")
endif()
set(_highs_cache "${_highs_cache}/lucid/highs-1.10.0")
if(CMAKE_CROSSCOMPILING)
  set(_highs_cache)  # it was built for this machine
endif()
find_path(HIGHS_INCLUDE_DIR Highs.h HINTS ${_highs_cache} PATH_SUFFIXES include/highs highs)
find_library(HIGHS_LIBRARY highs HINTS ${_highs_cache} PATH_SUFFIXES lib)
mark_as_advanced(HIGHS_INCLUDE_DIR HIGHS_LIBRARY)
if(HIGHS_INCLUDE_DIR AND EXISTS ${HIGHS_INCLUDE_DIR}/HConfig.h)
  file(READ ${HIGHS_INCLUDE_DIR}/HConfig.h _highs_config)
  foreach(_highs_part IN ITEMS MAJOR MINOR PATCH)
    string(REGEX MATCH "HIGHS_VERSION_${_highs_part} ([0-9]+)" _highs_match "${_highs_config}")
    set(highs_VERSION_${_highs_part} ${CMAKE_MATCH_1})
  endforeach()
  set(highs_VERSION ${highs_VERSION_MAJOR}.${highs_VERSION_MINOR}.${highs_VERSION_PATCH})
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(highs
  REQUIRED_VARS HIGHS_LIBRARY HIGHS_INCLUDE_DIR VERSION_VAR highs_VERSION)
if(highs_FOUND AND NOT TARGET highs::highs)
  add_library(highs::highs UNKNOWN IMPORTED)
  set_target_properties(highs::highs PROPERTIES
    IMPORTED_LOCATION ${HIGHS_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${HIGHS_INCLUDE_DIR})
endif()
unset(_highs_cache)
