#compdef conductor
# The words that may follow on a command line, for bash and zsh.

# Prints the words of a place, one a line: `log show`, `log show -` for options, `log show --turn`
# for the values of one. `@files`, `@folders` and `@component` stand for what the shell or a function
# knows, and `@any` for what nobody can guess.
_conductor_words() {
  case $1 in
@CASES@
  esac
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
      -*) if [ -z "$after" ] && [ -n "$(_conductor_words "$command $word")" ]; then flag=$word; fi ;;
      *) if [ -n "$(_conductor_words "${command:+$command }$word -")" ]; then command="${command:+$command }$word"; fi ;;
    esac
  done
  case $flag$after$1 in
    -*=*) _conductor_expand "$1" "$command ${1%%=*}" "${1%%=*}=" ;;
    *) if [ -n "$flag" ]; then
        _conductor_expand "$1" "$command $flag"
      elif [[ -z $after && $1 == -* ]]; then
        _conductor_expand "$1" "$command -"
      else
        _conductor_expand "$1" "$command"
      fi ;;
  esac
}

# The words of a place, each behind a text, with the components that the argument may become.
_conductor_expand() {
  local each key last=${1##*,}
  while IFS= read -r each; do
    case $each in
      @component)
        case $last in
          *=*) key=${last%%=*}= ;;
          limit.*) key=limit. ;;
          *) key= ;;
        esac
        case $1 in
          *,*) _conductor_expand '' "@component,$key" "${1%,*},$key" ;;
          *) _conductor_words @component ;;
        esac ;;
      @*) printf '%s\n' "$each" ;;
      *) printf '%s\n' "$3$each" ;;
    esac
  done < <(_conductor_words "$2")
}
