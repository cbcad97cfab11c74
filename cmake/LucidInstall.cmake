# `cmake --install` gives headers, static libraries, programs and a CMake package: lucid::lucid for
# everything, lucid::<module> for one.
include(CMakePackageConfigHelpers)
set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lucid)

install(DIRECTORY include/lucid DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS lucid EXPORT lucid-targets)
install(EXPORT lucid-targets NAMESPACE lucid:: DESTINATION ${_package_dir})

# Static libraries hand the libraries they use on to whoever links them. Every such target is called
# Package::name, so the packages a consumer has to find follow from what the modules link.
set(LUCID_PACKAGES)
foreach(_layer IN LISTS LUCID_LAYERS)
  get_target_property(_libraries lucid_${_layer} LINK_LIBRARIES)
  foreach(_library IN LISTS _libraries)
    if(_library STREQUAL "SQLite::SQLite3")  # the exception: the package has a digit more
      list(APPEND LUCID_PACKAGES SQLite3)
    elseif(_library MATCHES "^([A-Za-z0-9_]+)::")
      list(APPEND LUCID_PACKAGES ${CMAKE_MATCH_1})
    elseif(_library STREQUAL "onnx_proto")  # the exception: no namespace before ONNX 1.13
      list(APPEND LUCID_PACKAGES ONNX)
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES LUCID_PACKAGES)
if(ONNX IN_LIST LUCID_PACKAGES)  # it does not find the protobuf that it needs itself
  list(PREPEND LUCID_PACKAGES Protobuf)
endif()

configure_package_config_file(cmake/lucidConfig.cmake.in ${PROJECT_BINARY_DIR}/lucidConfig.cmake
  INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lucidConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lucidConfig.cmake ${PROJECT_BINARY_DIR}/lucidConfigVersion.cmake
  cmake/FindGMP.cmake cmake/FindGrpcpp.cmake cmake/FindMPFR.cmake cmake/FindSodium.cmake cmake/Findhighs.cmake
  cmake/FindLibPQ.cmake cmake/Findlibzip.cmake
  DESTINATION ${_package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# The server as a system service. The prefix is known when it is installed: a package has another.
install(CODE "
  set(CMAKE_INSTALL_FULL_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  configure_file(\"${PROJECT_SOURCE_DIR}/contrib/lucid.service.in\"
    \"${PROJECT_BINARY_DIR}/lucid.service\" @ONLY)" COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/lucid.service DESTINATION lib/systemd/system COMPONENT program)
install(FILES contrib/lucid.sysusers DESTINATION lib/sysusers.d RENAME lucid.conf
  COMPONENT program)

# One name for all that a folder builds, whoever adds to it: what `./dev build` and `bench` ask for.
function(lucid_group NAME DIRECTORY)
  get_property(_targets DIRECTORY ${DIRECTORY} PROPERTY BUILDSYSTEM_TARGETS)
  add_custom_target(${NAME})
  if(_targets)
    add_dependencies(${NAME} ${_targets})
  endif()
endfunction()
lucid_group(programs apps)
if(LUCID_BUILD_BENCHMARKS)
  lucid_group(benchmarks bench)
endif()
