# cmake --install: the program, the libraries with their headers, and what find_package(foldgrad) reads.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(installed foldgrad_settings ${foldgrad_libraries})
if(TARGET foldgrad_emulation)
  list(APPEND installed foldgrad_emulation)
endif()
if(TARGET foldgrad_onnx)
  list(APPEND installed foldgrad_onnx)
  set_target_properties(foldgrad_onnx PROPERTIES EXPORT_NAME onnx)
endif()
set_target_properties(foldgrad_settings PROPERTIES EXPORT_NAME settings)
install(TARGETS ${installed} EXPORT foldgrad)
install(TARGETS foldgrad)
if(foldgrad_modules)  # beside the program, which looks for them there
  install(TARGETS ${foldgrad_modules} LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(folder engine emulation ops models train)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/foldgrad
          FILES_MATCHING PATTERN "*.h")
endforeach()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/foldgrad)
install(EXPORT foldgrad NAMESPACE foldgrad:: FILE foldgradTargets.cmake DESTINATION ${package})
configure_file(${PROJECT_SOURCE_DIR}/cmake/foldgradConfig.cmake.in foldgradConfig.cmake @ONLY)
write_basic_package_version_file(foldgradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/foldgradConfig.cmake ${PROJECT_BINARY_DIR}/foldgradConfigVersion.cmake
        DESTINATION ${package})
