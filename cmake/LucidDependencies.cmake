# What every build needs; `./dev setup` installs it on Debian.
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})  # FindGMP, FindGrpcpp, FindMPFR, FindSodium, Findhighs, FindLibPQ, Findlibzip
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
find_package(ZLIB REQUIRED)
find_package(hwy REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(GMP REQUIRED)
find_package(MPFR REQUIRED)
find_package(Sodium REQUIRED)
find_package(SQLite3 3.37 REQUIRED)  # STRICT tables
find_package(CLI11 REQUIRED)

# What a part needs.
include(cmake/LucidParts.cmake)

lucid_part(ONNX "import of ONNX files" "ONNX and protobuf (libonnx-dev, libprotobuf-dev)")
if(LUCID_ONNX_WANTED)
  # Only the messages; ONNX's CMake package does not find the protobuf that it needs itself.
  find_package(Protobuf QUIET)
  if(Protobuf_FOUND)
    find_package(ONNX QUIET)
  endif()
endif()
if(TARGET onnx_proto)  # before ONNX 1.13
  lucid_part_found(ONNX onnx_proto)
else()
  lucid_part_found(ONNX ONNX::onnx_proto)
endif()

lucid_part(SERVE "the HTTP server, and audits over HTTP"
  "Boost 1.74 (headers) and OpenSSL 3 (libboost-dev, libssl-dev)")
if(LUCID_SERVE_WANTED)
  find_package(Boost 1.74 QUIET CONFIG)  # headers only: Asio, Beast
  find_package(OpenSSL 3 QUIET COMPONENTS SSL)
endif()
lucid_part_found(SERVE Boost::headers OpenSSL::SSL)

lucid_part(FETCH "downloads of public data sets, and audits over HTTP" "libcurl (libcurl4-openssl-dev)")
if(LUCID_FETCH_WANTED)
  find_package(CURL QUIET)
endif()
lucid_part_found(FETCH CURL::libcurl)

lucid_part(NPZ "export to NumPy archives" "libzip (libzip-dev)")
if(LUCID_NPZ_WANTED)
  find_package(libzip QUIET MODULE)
endif()
lucid_part_found(NPZ libzip::zip)

lucid_part(MPI "several processes of one job (mpirun lucid train)" "MPI (libopenmpi-dev)")
if(LUCID_MPI_WANTED)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
endif()
# The target is there even where MPI was not found.
if(MPI_CXX_FOUND)
  lucid_part_found(MPI MPI::MPI_CXX)
else()
  lucid_part_found(MPI MPI_was_not_found)
endif()

lucid_part(POSTGRES "ledgers in PostgreSQL" "libpq 14 (libpq-dev)")
if(LUCID_POSTGRES_WANTED)
  find_package(LibPQ QUIET MODULE)
endif()
lucid_part_found(POSTGRES LibPQ::pq)

lucid_part(GRPC "the server's gRPC port"
  "the part SERVE, gRPC and protobuf (libgrpc++-dev, protobuf-compiler-grpc)")
if(LUCID_GRPC_WANTED AND LUCID_HAS_SERVE)
  find_package(Grpcpp QUIET MODULE)
endif()
if(Grpcpp_PLUGIN AND Protobuf_PROTOC_EXECUTABLE)
  lucid_part_found(GRPC Grpcpp::grpcpp)
else()
  lucid_part_found(GRPC gRPC_was_not_found)
endif()

option(LUCID_REQUIRE_HIGHS "The same as LUCID_HIGHS=ON" OFF)
lucid_part(HIGHS "the paper's MILP engine" "HiGHS 1.10 (tools/get_highs builds it once)")
if(LUCID_REQUIRE_HIGHS)
  set(LUCID_HIGHS ON)
  set(LUCID_HIGHS_WANTED ON)
endif()
if(LUCID_HIGHS_WANTED)
  find_package(highs 1.10 QUIET MODULE)
endif()
lucid_part_found(HIGHS highs::highs)
# It may be a shared library outside the system's folders: installed programs must find it, too.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

if(LUCID_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
  set(_tested ONNX SERVE FETCH NPZ)
  if(NOT CMAKE_CROSSCOMPILING)  # mpirun, PostgreSQL and protoc are programs of this machine
    list(APPEND _tested MPI POSTGRES GRPC)
  endif()
  foreach(_part IN LISTS _tested)
    if(NOT LUCID_HAS_${_part})
      message(FATAL_ERROR "the tests need every part, and ${_part} is left out: install "
        "${LUCID_${_part}_NEEDS}, or configure with -DLUCID_BUILD_TESTS=OFF")
    endif()
  endforeach()
endif()
# Off unless asked for: no program needs it.
set(LUCID_PYTHON OFF CACHE STRING "the Python module: AUTO, ON or OFF")
lucid_part(PYTHON "the Python module" "pybind11 and NumPy (pybind11-dev, python3-dev, python3-numpy)")
if(LUCID_PYTHON_WANTED)
  set(PYBIND11_FINDPYTHON ON)
  find_package(pybind11 CONFIG QUIET)
endif()
lucid_part_found(PYTHON pybind11::module)
lucid_parts_summary()
