# Installs a build, and builds two examples with the installed files. examples/translate must translate with a folded
# model as the program does. examples/mlp links only single libraries. Also checks the other installed files, and then
# uninstalls everything.
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
file(MAKE_DIRECTORY ${WORK}/prefix/lib ${WORK}/prefix/bin)  # uninstalling must keep these folders
file(WRITE ${WORK}/prefix/bin/other "")
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
if(NOT gradient STREQUAL "y = 3, dW = (1, 2)\n")  # y = sum(relu(x W^T)), x = (1 2; 3 -4), W = (1 1)
  message(FATAL_ERROR "examples/mlp/gradient prints ${gradient}")
endif()
run(learned ${WORK}/mlp/mlp)
if(NOT learned MATCHES "\n(19[0-9]|200) of 200 points are classified correctly\n$")
  message(FATAL_ERROR "examples/mlp/mlp learns too little:\n${learned}")
endif()

# Checks how bash completes a line with the cursor at its end.
function(expect_completed line expected)
  run(got bash -c "source '${WORK}/prefix/share/bash-completion/completions/foldgrad'
    complete -p foldgrad >/dev/null
    COMP_LINE=\$2 COMP_POINT=\${#2}
    _foldgrad \"\$1\"
    echo \"\${COMPREPLY[*]}\"" bash ${program} "${line}")
  if(NOT got STREQUAL "${expected}\n")
    message(FATAL_ERROR "bash completes \"${line}\" with ${got}instead of ${expected}")
  endif()
endfunction()
expect_completed("foldgrad tra" "train translate")
expect_completed("foldgrad data " "fetch info prepare synth verify")
expect_completed("foldgrad train --set data.tokenizer=s" "sentencepiece")
expect_completed("foldgrad train --set norm.un.wa" "norm.un.warmup=")
expect_completed("foldgrad verify-traces --dtype=f6" "f64")
expect_completed("foldgrad fold --out tra" "")

find_program(man man)
if(man)
  set(ENV{LC_ALL} C.UTF-8)
  set(ENV{MANWIDTH} 200)
  run(page ${man} --warnings=all -l ${WORK}/prefix/share/man/man1/foldgrad.1)
  foreach(part "foldgrad - Trains Transformers" "foldgrad data fetch\n" "-o,--out,--output TEXT\n" "\\$OMP_NUM_THREADS")
    if(NOT page MATCHES "${part}")
      message(FATAL_ERROR "the manual page lacks ${part}:\n${page}")
    endif()
  endforeach()
endif()
foreach(file doc/foldgrad/LICENSE doc/foldgrad/docs/language.md foldgrad/configs/docs-gpt-un.toml
             foldgrad/configs/docs-gpt.toml zsh/site-functions/_foldgrad fish/vendor_completions.d/foldgrad.fish)
  if(NOT EXISTS ${WORK}/prefix/share/${file})
    message(FATAL_ERROR "share/${file} is not installed")
  endif()
endforeach()

run(none ${CMAKE_COMMAND} --build ${BUILD} --target uninstall)
file(GLOB_RECURSE left LIST_DIRECTORIES true RELATIVE ${WORK}/prefix ${WORK}/prefix/*)
if(NOT left STREQUAL "bin;bin/other;lib")
  message(FATAL_ERROR "uninstall leaves ${left}")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BUILD} --target uninstall RESULT_VARIABLE rc OUTPUT_VARIABLE out
                ERROR_VARIABLE err)
if(rc EQUAL 0 OR NOT "${out}${err}" MATCHES "nothing is installed")
  message(FATAL_ERROR "uninstall, the second time: exit code ${rc}\n${out}${err}")
endif()
