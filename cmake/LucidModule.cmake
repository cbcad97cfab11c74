# lucid_module(NAME SOURCES ... [USES module...] [LIBS target...] [TESTS file_test.cc...])
#
# One static library per line of src/LAYERS. USES names other modules and must point upward in that
# file; LIBS are third-party targets, private to the module (public headers mention none of them).

file(STRINGS ${PROJECT_SOURCE_DIR}/src/LAYERS _layer_lines REGEX "^[a-z]+:")
set(LUCID_LAYERS)
foreach(_line IN LISTS _layer_lines)
  string(REGEX MATCH "^[a-z]+" _layer "${_line}")
  list(APPEND LUCID_LAYERS ${_layer})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/LAYERS)

function(lucid_module NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LIBS;TESTS" ${ARGN})
  list(FIND LUCID_LAYERS ${NAME} _own)
  if(_own EQUAL -1)
    message(FATAL_ERROR "module '${NAME}' is not a line of src/LAYERS")
  endif()
  set(_uses)
  foreach(_use IN LISTS ARG_USES)
    list(FIND LUCID_LAYERS ${_use} _other)
    if(_other EQUAL -1 OR NOT _other LESS _own)
      message(FATAL_ERROR "upward edge: module '${NAME}' may not use '${_use}' (src/LAYERS)")
    endif()
    list(APPEND _uses lucid_${_use})
  endforeach()

  add_library(lucid_${NAME} STATIC ${ARG_SOURCES})
  add_library(lucid::${NAME} ALIAS lucid_${NAME})
  set_target_properties(lucid_${NAME} PROPERTIES EXPORT_NAME ${NAME} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(lucid_${NAME}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
  target_compile_features(lucid_${NAME} PUBLIC cxx_std_20)
  target_link_libraries(lucid_${NAME} PUBLIC ${_uses} PRIVATE ${ARG_LIBS} lucid_build_flags)
  lucid_use_precompiled(lucid_${NAME} lucid_library_headers)
  install(TARGETS lucid_${NAME} EXPORT lucid-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

  if(LUCID_BUILD_TESTS AND ARG_TESTS)
    lucid_test(${NAME}_test SOURCES ${ARG_TESTS} USES ${NAME} LIBS ${ARG_LIBS})
  endif()
endfunction()

# Where tests look for the real data sets. A header, not a flag: a compiler cache then serves every
# other test of a second checkout.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/test_paths.h CONTENT
"#define LUCID_SHARED_DATA \"@PROJECT_SOURCE_DIR@/../shared/data\"
" @ONLY)

# lucid_test(NAME SOURCES ... USES module... [LIBS ...] [LABELS ...]): one GoogleTest program, every
# case a ctest. Labels say what kind of test it is: unit (the default), property (random instances
# against an oracle), e2e (the real programs), browser (needs Chromium), slow (minutes).
# LUCID_TEST_FLAGS are for the tests' own code only: under sanitizers optimising it takes most of a
# build's time.
function(lucid_test NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LIBS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${NAME} ${ARG_SOURCES})
  list(TRANSFORM ARG_USES PREPEND lucid_)
  target_include_directories(${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests
    ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${NAME} PRIVATE ${ARG_USES} ${ARG_LIBS} GTest::gtest_main GTest::gmock
    lucid_build_flags)
  separate_arguments(_flags UNIX_COMMAND "${LUCID_TEST_FLAGS}")
  target_compile_options(${NAME} PRIVATE ${_flags})
  lucid_use_precompiled(${NAME} lucid_test_headers)
  gtest_discover_tests(${NAME} DISCOVERY_TIMEOUT 60 TEST_LIST ${NAME}_cases PROPERTIES TIMEOUT 600)
  # gtest_discover_tests takes no list as a property. ctest reads this file after the cases.
  set(_labels_file ${CMAKE_CURRENT_BINARY_DIR}/${NAME}_labels.cmake)
  file(WRITE ${_labels_file} "if(${NAME}_cases)
  set_tests_properties(\${${NAME}_cases} PROPERTIES LABELS \"${ARG_LABELS}\")
endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${_labels_file})
endfunction()
