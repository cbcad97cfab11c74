cmake_minimum_required(VERSION 3.25)

# run(COMMAND...): fails the test with the command's output unless it succeeds; sets `output`.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE _code OUTPUT_VARIABLE _output
    ERROR_VARIABLE _output)
  if(NOT _code EQUAL 0)
    message(FATAL_ERROR "exit ${_code}: ${ARGV}\n${_output}")
  endif()
  set(output "${_output}" PARENT_SCOPE)
endfunction()

set(_prefix ${WORK}/prefix)
file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${_prefix})

# Public headers mention no library that is an implementation detail.
file(GLOB_RECURSE _headers ${_prefix}/include/*.h)
if(NOT _headers)
  message(FATAL_ERROR "no header was installed")
endif()
foreach(_header IN LISTS _headers)
  file(STRINGS ${_header} _bad REGEX "#[ \t]*include[ \t]*[<\"](Eigen|openssl|hwy|nlohmann|fmt|CLI)/")
  if(_bad)
    message(FATAL_ERROR "${_header}: ${_bad}")
  endif()
endforeach()

run(${CMAKE_COMMAND} -G Ninja -S ${CONSUMER} -B ${WORK}/build
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS}"
  -DCMAKE_PREFIX_PATH=${_prefix} -DEXPECTED_VERSION=${VERSION})
run(${CMAKE_COMMAND} --build ${WORK}/build -j 2)
run(${WORK}/build/consumer)
# SHA-256 of "abc", from FIPS 180-2.
set(_expected "lucid ${VERSION} ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n")
if(NOT output STREQUAL _expected)
  message(FATAL_ERROR "consumer printed '${output}', expected '${_expected}'")
endif()
run(${_prefix}/bin/lucid --version)

# Our own compile flags stay ours.
file(STRINGS ${WORK}/build/compile_commands.json _leaked
  REGEX "\"command\".* (-W[a-z]|-ffp-contract|-march|-I[^ ]*/src( |$))")
if(_leaked)
  message(FATAL_ERROR "build flags leak to consumers: ${_leaked}")
endif()
