# The words that may follow on a command line, for bash and zsh.
# The tables print candidates, one a line. `@files`, `@folders` and `@component` stand for what the
# shell or a function knows, and `@any` for what nobody can guess.

@TABLES@

# Prints each of the further arguments behind the first.
_conductor_each() {
  local start=$1 each
  shift
  for each in "$@"; do
    printf '%s%s\n' "$start" "$each"
  done
}

# The lines of its input, with the components that the argument may become.
_conductor_expand() {
  local each
  while IFS= read -r each; do
    case $each in
      @component) _conductor_component "$1" ;;
      *) printf '%s\n' "$each" ;;
    esac
  done
}

# Candidates for the last argument; the others are the words before it.
_conductor_candidates() {
  local command='' flag='' word='' after=''
  while [ $# -gt 1 ]; do
    word=$1
    shift
    if [ -n "$flag" ]; then
      flag=''
      continue
    fi
    case $word in
      --) after=yes ;;
      -*=*) ;;
      -*) if [ -z "$after" ] && [ -n "$(_conductor_values "$command" "$word")" ]; then flag=$word; fi ;;
      *) if _conductor_is_command "$command" "$word"; then command="${command:+$command }$word"; fi ;;
    esac
  done
  if [ -n "$flag" ]; then
    _conductor_values "$command" "$flag" | _conductor_expand "$1"
    return
  fi
  case $after$1 in
    -*=*) _conductor_values "$command" "${1%%=*}" | _conductor_assigned "${1%%=*}=" ;;
    -*) _conductor_options "$command" ;;
    *) _conductor_arguments "$command" | _conductor_expand "$1" ;;
  esac
}

# The lines of its input as values of an option that is written --option=VALUE.
_conductor_assigned() {
  local each
  while IFS= read -r each; do
    case $each in
      @*) printf '%s\n' "$each" ;;
      *) printf '%s%s\n' "$1" "$each" ;;
    esac
  done
}

_conductor_is_command() {
  case "$1/$2" in
    @COMMANDS@) return 0 ;;
  esac
  return 1
}
