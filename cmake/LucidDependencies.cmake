# Everything by its Debian 12 package; `./dev setup` installs them.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto SSL)
find_package(ZLIB REQUIRED)
find_package(CURL REQUIRED)
find_package(hwy REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(libzip REQUIRED)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})  # FindGMP, FindMPFR, FindSodium
find_package(GMP REQUIRED)
find_package(MPFR REQUIRED)
find_package(Sodium REQUIRED)
find_package(SQLite3 3.37 REQUIRED)  # STRICT tables
find_package(CLI11 REQUIRED)
find_package(Boost 1.81 REQUIRED)  # headers only: Asio, Beast
# Only the messages (onnx_proto); its CMake package does not find the protobuf it needs itself.
find_package(Protobuf REQUIRED)
find_package(ONNX REQUIRED)
if(LUCID_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
if(LUCID_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

# HiGHS: the system's, or the one that tools/get_highs built into the user's cache.
option(LUCID_REQUIRE_HIGHS "Fail if HiGHS is not found" OFF)
set(_cache "$ENV{XDG_CACHE_HOME}")
if(_cache STREQUAL "")
  set(_cache "$ENV{HOME}/.cache")
endif()
list(APPEND CMAKE_PREFIX_PATH "${_cache}/lucid/highs-1.10.0")
find_package(highs CONFIG QUIET)
if(highs_FOUND)
  # HiGHS 1.10 exports "${CMAKE_CUDA_PATH}/include" as well: "/include" without CUDA, which is not
  # there, and CMake refuses it.
  get_target_property(_include highs::highs INTERFACE_INCLUDE_DIRECTORIES)
  list(REMOVE_ITEM _include "/include")
  set_target_properties(highs::highs PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_include}")
  message(STATUS "HiGHS: ${highs_DIR}")
elseif(LUCID_REQUIRE_HIGHS)
  message(FATAL_ERROR "HiGHS not found: run tools/get_highs (./dev setup does), or set highs_DIR")
else()
  message(STATUS "HiGHS: not found, building without it (tools/get_highs builds it once)")
endif()
# It is a shared library outside the system's folders: installed programs must find it, too.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
