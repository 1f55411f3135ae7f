# Completion of PROGRAM in bash: source it, or save it in the directory of completions as PROGRAM.
_PROGRAM_complete() {
  # Bash splits --flag=value into three words, so read the line itself.
  local line=${COMP_LINE:0:COMP_POINT} words=() lines=() current offer candidate
  read -ra words <<<"$line"
  if [[ $line == *[[:space:]] ]]; then words+=(""); fi
  current=${words[-1]}
  mapfile -t lines < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
  ((${#lines[@]})) || return
  offer=${lines[-1]}
  unset 'lines[-1]'

  COMPREPLY=()
  case $offer in
    files) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -f -- "${current#--*=}") ;;
    directories) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "${current#--*=}") ;;
    *)
      for candidate in "${lines[@]%%$'\t'*}"; do
        if [[ $current == --*=* ]]; then candidate=${candidate#--*=}; fi
        COMPREPLY+=("$candidate")
      done
      ;;
  esac
}
complete -F _PROGRAM_complete PROGRAM
