# gRPC for C++: Grpcpp::grpcpp, and Grpcpp_PLUGIN, which writes services. Debian's CMake package of
# gRPC wants packages of everything that gRPC itself was built with. This file is installed with
# LUCID, for whoever links its static libraries.
find_path(GRPCPP_INCLUDE_DIR grpcpp/grpcpp.h)
find_library(GRPCPP_LIBRARY grpc++)
find_library(GRPC_LIBRARY grpc)
find_library(GPR_LIBRARY gpr)
find_library(GRPCPP_ABSL_LIBRARY absl_synchronization)  # gRPC's headers use it in line
find_program(Grpcpp_PLUGIN grpc_cpp_plugin)
mark_as_advanced(GRPCPP_INCLUDE_DIR GRPCPP_LIBRARY GRPC_LIBRARY GPR_LIBRARY GRPCPP_ABSL_LIBRARY
  Grpcpp_PLUGIN)
find_package(Protobuf QUIET MODULE)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Grpcpp REQUIRED_VARS GRPCPP_LIBRARY GRPC_LIBRARY GPR_LIBRARY
  GRPCPP_INCLUDE_DIR Protobuf_LIBRARIES)
if(Grpcpp_FOUND AND NOT TARGET Grpcpp::grpcpp)
  add_library(Grpcpp::grpcpp UNKNOWN IMPORTED)
  set(_grpcpp_needs ${GRPC_LIBRARY} ${GPR_LIBRARY} protobuf::libprotobuf)
  if(GRPCPP_ABSL_LIBRARY)
    list(APPEND _grpcpp_needs ${GRPCPP_ABSL_LIBRARY})
  endif()
  set_target_properties(Grpcpp::grpcpp PROPERTIES
    IMPORTED_LOCATION ${GRPCPP_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${GRPCPP_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES "${_grpcpp_needs}")
endif()
