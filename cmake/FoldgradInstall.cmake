# cmake --install: the program with its manual page, completion, configurations and documentation (component `program`),
# and the libraries with their headers and the files for find_package(foldgrad) (component `development`). The target
# `uninstall` removes both.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/foldgrad)
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/foldgrad)
set(share ${CMAKE_INSTALL_DATADIR})

# Runs before all other rules: records for `uninstall` our folders, and other folders that do not exist yet.
string(CONFIGURE [[
  set(record "@PROJECT_BINARY_DIR@/install_folders.txt")
  foreach(folder @CMAKE_INSTALL_BINDIR@ @package@ @headers@ @CMAKE_INSTALL_DOCDIR@ @share@/foldgrad
                 @CMAKE_INSTALL_MANDIR@/man1 @share@/bash-completion/completions @share@/zsh/site-functions
                 @share@/fish/vendor_completions.d)
    cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
    if(folder MATCHES "/foldgrad$")
      file(APPEND "${record}" "${folder}\n")
      cmake_path(GET folder PARENT_PATH folder)
    endif()
    while(NOT EXISTS "$ENV{DESTDIR}${folder}" AND NOT folder STREQUAL "/")
      file(APPEND "${record}" "${folder}\n")
      cmake_path(GET folder PARENT_PATH folder)
    endwhile()
  endforeach()]] record @ONLY)
install(CODE "${record}" ALL_COMPONENTS)
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR}
                                    -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake VERBATIM)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
install(TARGETS foldgrad)
if(foldgrad_modules)  # next to the program, which looks for them there
  install(TARGETS ${foldgrad_modules} LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(CODE "execute_process(COMMAND \"$<TARGET_FILE:foldgrad>\" manual COMMAND_ERROR_IS_FATAL ANY
                              OUTPUT_FILE \"${PROJECT_BINARY_DIR}/foldgrad.1\")")
install(FILES ${PROJECT_BINARY_DIR}/foldgrad.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
set(completion ${PROJECT_SOURCE_DIR}/scripts/completion)
install(FILES ${completion}/foldgrad.bash DESTINATION ${share}/bash-completion/completions RENAME foldgrad)
install(FILES ${completion}/_foldgrad DESTINATION ${share}/zsh/site-functions)
install(FILES ${completion}/foldgrad.fish DESTINATION ${share}/fish/vendor_completions.d)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${share}/foldgrad)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
set(installed foldgrad_settings ${foldgrad_libraries})
if(TARGET foldgrad_emulation)
  list(APPEND installed foldgrad_emulation)
endif()
set_target_properties(foldgrad_settings PROPERTIES EXPORT_NAME settings)
install(TARGETS ${installed} EXPORT foldgrad)
foreach(folder engine emulation ops models train)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${headers} FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT foldgrad NAMESPACE foldgrad:: FILE foldgradTargets.cmake DESTINATION ${package})
configure_file(${PROJECT_SOURCE_DIR}/cmake/foldgradConfig.cmake.in foldgradConfig.cmake @ONLY)
write_basic_package_version_file(foldgradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/foldgradConfig.cmake ${PROJECT_BINARY_DIR}/foldgradConfigVersion.cmake
        DESTINATION ${package})
