# Completion for bash. The program suggests words; if it suggests none, bash completes file names.
_foldgrad() {
  local line=${COMP_LINE:0:COMP_POINT} words last kept
  read -ra words <<<"$line"
  [[ $line != *' ' ]] || words+=("")
  mapfile -t COMPREPLY < <("${1/#\~/$HOME}" complete "${words[@]:1}" 2>/dev/null)
  last=${words[-1]}
  kept=${last%"${last##*[=:]}"}  # bash replaces only the text after the last = or :
  COMPREPLY=("${COMPREPLY[@]#"$kept"}")
  [[ ${COMPREPLY[*]} != *= ]] || compopt -o nospace 2>/dev/null
}
complete -o default -F _foldgrad foldgrad
