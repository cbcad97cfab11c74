# libpq: LibPQ::pq, of PostgreSQL 14 or newer (pipelines). CMake's own module wants the server's
# headers as well. This file is installed with LUCID, for whoever links its static libraries.
find_path(LIBPQ_INCLUDE_DIR libpq-fe.h PATH_SUFFIXES postgresql pgsql)
find_library(LIBPQ_LIBRARY pq)
mark_as_advanced(LIBPQ_INCLUDE_DIR LIBPQ_LIBRARY)
set(LIBPQ_PIPELINES)
if(LIBPQ_INCLUDE_DIR)
  file(STRINGS ${LIBPQ_INCLUDE_DIR}/libpq-fe.h LIBPQ_PIPELINES REGEX "define LIBPQ_HAS_PIPELINING")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibPQ REQUIRED_VARS LIBPQ_LIBRARY LIBPQ_INCLUDE_DIR LIBPQ_PIPELINES)
if(LibPQ_FOUND AND NOT TARGET LibPQ::pq)
  add_library(LibPQ::pq UNKNOWN IMPORTED)
  set_target_properties(LibPQ::pq PROPERTIES
    IMPORTED_LOCATION ${LIBPQ_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${LIBPQ_INCLUDE_DIR})
endif()
