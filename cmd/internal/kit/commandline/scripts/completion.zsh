#compdef PROGRAM
# Completion of PROGRAM in zsh: save it in a directory of $fpath as _PROGRAM, or source it after compinit.
_PROGRAM() {
  local -a lines candidates
  local line offer
  lines=("${(@f)$(${words[1]} __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  offer=${lines[-1]}
  for line in "${(@)lines[1,-2]}"; do
    candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  case $offer in
    files) compset -P '--*='; _files ;;
    directories) compset -P '--*='; _files -/ ;;
    *) _describe PROGRAM candidates ;;
  esac
}
if [[ ${funcstack[1]} == _PROGRAM ]]; then
  _PROGRAM "$@"
else
  compdef _PROGRAM PROGRAM
fi
