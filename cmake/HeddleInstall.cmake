# Headers, libraries, shipped records, the command line, and the package that find_package(heddle) finds.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/heddle
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tophub/
        DESTINATION ${CMAKE_INSTALL_DATADIR}/heddle/tophub)
install(TARGETS heddle heddle_rt EXPORT heddle_targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET heddle_cli)
  file(RELATIVE_PATH _heddle_lib_from_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
  set_target_properties(heddle_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${_heddle_lib_from_bin}")
  install(TARGETS heddle_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
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
