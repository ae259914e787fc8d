# Headers, libraries, shipped records, the command line, and the package that find_package(heddle) finds;
# and a Debian package of all of it (cpack).
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/heddle
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tophub/
        DESTINATION ${CMAKE_INSTALL_DATADIR}/heddle/tophub)
install(TARGETS heddle heddle_rt EXPORT heddle_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# All targets that need the library also build everything that is installed with it.
add_dependencies(heddle heddle_rt)
install(TARGETS heddle_worker RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/heddle)
if(TARGET heddle_cli)
  file(RELATIVE_PATH _heddle_lib_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(heddle_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${_heddle_lib_from_bin}")
  # Optional, so that a build of the lessons alone installs the library without the command line.
  install(TARGETS heddle_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
endif()

set(_heddle_package ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)
install(EXPORT heddle_targets NAMESPACE heddle:: FILE heddleTargets.cmake
        DESTINATION ${_heddle_package})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/heddleConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/heddleConfig.cmake
                              INSTALL_DESTINATION ${_heddle_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heddleConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heddleConfig.cmake
              ${PROJECT_BINARY_DIR}/heddleConfigVersion.cmake
        DESTINATION ${_heddle_package})

# ---- a Debian package: cmake --build build && (cd build && cpack) --------------------------------
if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME heddle)
  set(CPACK_PACKAGE_VENDOR Heddle)
  set(CPACK_PACKAGE_CONTACT "The Heddle developers <heddle@localhost>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION devel)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # the libraries that ours are linked with
  # A compiler is recommended for the static runtime and the headers. The library itself needs none.
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++ (>= 4:12), cmake (>= 3.25)")
  include(CPack)
endif()
