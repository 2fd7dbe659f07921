# Installs a build, and builds the examples against it: examples/translate, which must translate with a folded model as
# the program does, and examples/mlp, which links single libraries.
#   cmake -DSOURCE=... -DBUILD=... -DWORK=... -P install_test.cmake
cmake_minimum_required(VERSION 3.25)

function(run output)
  execute_process(COMMAND ${ARGN} INPUT_FILE ${WORK}/source.txt OUTPUT_VARIABLE out ERROR_VARIABLE err RESULT_VARIABLE rc)
  if(NOT rc EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}: exit code ${rc}\n${out}${err}")
  endif()
  set(${output} "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(WRITE ${WORK}/source.txt "dreihundertzwölf\neins\n")
run(none ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(none ${CMAKE_COMMAND} -S ${SOURCE}/examples/translate -B ${WORK}/example -G Ninja -DCMAKE_BUILD_TYPE=Debug
    -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(none ${CMAKE_COMMAND} --build ${WORK}/example)

set(program ${WORK}/prefix/bin/foldgrad)
file(WRITE ${WORK}/config.toml "
[model]\nwidth = 16\nffn_width = 32\nheads = 2\nencoder_layers = 1\ndecoder_layers = 1\nmax_positions = 128\n
[norm]\nname = \"un\"\n
[data]\ntask = \"numbers\"\ntrain_pairs = 200\nvalid_pairs = 3\n
[train]\nsteps = 20\n
[validate]\nbeam = 1\n")
run(none ${program} train ${WORK}/config.toml --out ${WORK}/run)
run(none ${program} fold ${WORK}/run -o ${WORK}/folded --untie)
run(expected ${program} translate ${WORK}/folded --beam 5)
run(got ${WORK}/example/translate ${WORK}/folded)
if(NOT got STREQUAL expected OR got STREQUAL "")
  message(FATAL_ERROR "the example prints\n${got}the program\n${expected}")
endif()

run(none ${CMAKE_COMMAND} -S ${SOURCE}/examples/mlp -B ${WORK}/mlp -G Ninja -DCMAKE_BUILD_TYPE=Debug
    -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(none ${CMAKE_COMMAND} --build ${WORK}/mlp)
run(gradient ${WORK}/mlp/gradient)
if(NOT gradient STREQUAL "y = 3, dW = (1, 2)\n")  # of x = (1 2; 3 -4) and W = (1 1), relu leaves the first row
  message(FATAL_ERROR "examples/mlp/gradient prints ${gradient}")
endif()
run(learned ${WORK}/mlp/mlp)
if(NOT learned MATCHES "\n(19[0-9]|200) of 200 points are on their spiral\n$")
  message(FATAL_ERROR "examples/mlp/mlp learns too little:\n${learned}")
endif()
