# cmake -DSOURCE=... -DOUTPUT=... -DVERSION=... -DCOMPILER=... -DFLAGS=... -P write_version.cmake: writes the
# header that `foldgrad --version` prints. It runs with every build and changes the file only when its content does.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --exclude=* RESULT_VARIABLE status
                OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT status EQUAL 0)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#pragma once
#define FOLDGRAD_VERSION "@VERSION@"
#define FOLDGRAD_COMMIT "@commit@"
#define FOLDGRAD_COMPILER "@COMPILER@"
#define FOLDGRAD_FLAGS "@FLAGS@"
]] @ONLY)
