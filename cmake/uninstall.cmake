# cmake -DBUILD=... -P uninstall.cmake: removes the files of the last `cmake --install` from a build folder, and the
# folders made for them that are now empty.
file(GLOB manifests ${BUILD}/install_manifest*.txt)
if(NOT manifests)
  message(FATAL_ERROR "nothing is installed from ${BUILD}")
endif()
foreach(manifest ${manifests})
  file(STRINGS ${manifest} files)
  foreach(file ${files})
    file(REMOVE "$ENV{DESTDIR}${file}")
    if(EXISTS "$ENV{DESTDIR}${file}")
      message(FATAL_ERROR "${file} cannot be removed: uninstall as the user who installed")
    endif()
  endforeach()
endforeach()

# The folders that FoldgradInstall.cmake has recorded. Everything below those named foldgrad is ours.
file(STRINGS ${BUILD}/install_folders.txt folders)
list(REMOVE_DUPLICATES folders)
list(SORT folders ORDER DESCENDING)  # the deepest first
foreach(folder ${folders})
  if(folder MATCHES "/foldgrad$" AND EXISTS "$ENV{DESTDIR}${folder}")
    execute_process(COMMAND find "$ENV{DESTDIR}${folder}" -depth -type d -empty -delete)
  endif()
  execute_process(COMMAND rmdir "$ENV{DESTDIR}${folder}" ERROR_QUIET)  # fails if something else is in it
endforeach()
file(REMOVE ${manifests} ${BUILD}/install_folders.txt)
