# Ways to parse a header once for many files.

# Precompiled headers: what nearly every file includes is parsed once instead of four hundred times.
# Off unless asked for, because they hide a missing #include and need a compiler cache that is told
# of them. `./dev` does tell it, and asks for them in the preset `release`.
option(LUCID_PCH "Precompile the headers that nearly every file includes" OFF)

set(_standard_headers <algorithm> <array> <charconv> <chrono> <cmath> <cstdint> <cstring>
  <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set>
  <span> <sstream> <stop_token> <string> <string_view> <thread> <utility> <variant> <vector>
  <fmt/format.h>)

# lucid_precompiled(NAME PIC LIBS... HEADERS...): a library that holds nothing but the headers.
function(lucid_precompiled NAME)
  cmake_parse_arguments(ARG "PIC" "" "LIBS;HEADERS" ${ARGN})
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${NAME}.cc CONTENT "")
  add_library(${NAME} OBJECT ${PROJECT_BINARY_DIR}/generated/${NAME}.cc)
  if(ARG_PIC)
    set_target_properties(${NAME} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  target_compile_features(${NAME} PRIVATE cxx_std_20)
  target_link_libraries(${NAME} PRIVATE fmt::fmt Threads::Threads ${ARG_LIBS} lucid_build_flags)
  target_precompile_headers(${NAME} PRIVATE ${_standard_headers} ${ARG_HEADERS})
endfunction()

if(LUCID_PCH)
  lucid_precompiled(lucid_library_headers PIC)
  lucid_precompiled(lucid_program_headers LIBS CLI11::CLI11 nlohmann_json::nlohmann_json
    lucid_program_flags HEADERS <CLI/CLI.hpp> <nlohmann/json.hpp>)
  if(LUCID_BUILD_TESTS)
    lucid_precompiled(lucid_test_headers LIBS GTest::gmock HEADERS <gtest/gtest.h> <gmock/gmock.h>)
    separate_arguments(_flags UNIX_COMMAND "${LUCID_TEST_FLAGS}")
    target_compile_options(lucid_test_headers PRIVATE ${_flags})
  endif()
endif()

# lucid_use_precompiled(TARGET HEADERS): a target must be compiled as its headers were: with fmt and
# with threads.
function(lucid_use_precompiled TARGET HEADERS)
  if(LUCID_PCH)
    target_link_libraries(${TARGET} PRIVATE fmt::fmt Threads::Threads)
    target_precompile_headers(${TARGET} REUSE_FROM ${HEADERS})
  endif()
endfunction()

# lucid_together(TARGET FILE...): the files are compiled as one, because what they include takes
# longer than what they say. Each must still include what it uses: the presets for developers,
# LUCID_TOGETHER=OFF, compile them one by one. Names in their unnamed namespaces must differ.
option(LUCID_TOGETHER "Compile small files that include the same large headers as one" ON)
function(lucid_together TARGET)
  if(LUCID_TOGETHER)
    list(GET ARGN 0 _first)
    string(MAKE_C_IDENTIFIER ${_first} _first)
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP with_${_first})
  endif()
endfunction()
