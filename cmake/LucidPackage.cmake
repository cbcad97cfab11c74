# `cpack -G DEB` makes one Debian package of what people run: the component `program`, that is both
# programs, manual pages, completion, system service and the Python module. `./dev package` calls it.

# Made by the programs themselves, from their own options.
set(_package ${PROJECT_BINARY_DIR}/package)
set(_made ${_package}/lucid.1 ${_package}/lucid-check.1 ${_package}/lucid)
add_custom_command(OUTPUT ${_made}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${_package}
  COMMAND lucid_program --man > ${_package}/lucid.1
  COMMAND lucid_check_program --man > ${_package}/lucid-check.1
  COMMAND lucid_program completion bash > ${_package}/lucid
  DEPENDS lucid_program lucid_check_program VERBATIM)
add_custom_target(package_files DEPENDS ${_made})
install(FILES ${_package}/lucid.1 ${_package}/lucid-check.1
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program OPTIONAL)
install(FILES ${_package}/lucid
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program OPTIONAL)

if(LUCID_HAS_PYTHON)
  add_dependencies(package_files lucid_python)
  install(TARGETS lucid_python LIBRARY DESTINATION lib/python3/dist-packages/lucid
    COMPONENT program OPTIONAL)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/lucid DESTINATION lib/python3/dist-packages
    COMPONENT program PATTERN __pycache__ EXCLUDE)
  math(EXPR _next "${Python_VERSION_MINOR} + 1")
  string(CONCAT CPACK_DEBIAN_PACKAGE_DEPENDS "python3 (>= 3.${Python_VERSION_MINOR}~), "
    "python3 (<< 3.${_next}~), python3-numpy")
  # What Python compiles when root imports the module would stay and look like a module.
  file(CONFIGURE OUTPUT ${_package}/prerm CONTENT
    "#!/bin/sh\nset -e\nrm -rf /usr/lib/python3/dist-packages/lucid/__pycache__\n" @ONLY)
  file(CHMOD ${_package}/prerm PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
    GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA ${_package}/prerm)
endif()

# A solver that no Debian package has (tools/get_highs built it) comes along.
if(TARGET highs::highs AND HIGHS_LIBRARY AND NOT HIGHS_LIBRARY MATCHES "^/usr/lib/")
  file(GLOB _highs ${HIGHS_LIBRARY}*)
  install(FILES ${_highs} DESTINATION lib/lucid COMPONENT program)
  get_filename_component(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${HIGHS_LIBRARY} DIRECTORY)
  set_target_properties(lucid_program PROPERTIES
    INSTALL_RPATH "$ORIGIN/../lib/lucid" INSTALL_RPATH_USE_LINK_PATH OFF)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lucid)
set(CPACK_PACKAGE_CONTACT "LUCID contributors <lucid@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "label-only access to neural networks with proved privacy")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME lucid)
set(CPACK_DEBIAN_PROGRAM_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_STRIP_FILES ON)
include(CPack)
