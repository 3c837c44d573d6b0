_conductor() {
  local line=${COMP_LINE:0:COMP_POINT} glue= word= at=0 i
  local -a words=()
  # bash parts words at = and :, which are within words of ours.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ -z $word && $line == *[[:space:]] ]]; then glue=; fi
    if [[ $at -gt 0 && ( -n $glue || $word == [=:]* ) ]]; then
      words[at - 1]+=$word
    else
      words[at]=$word
      at=$((at + 1))
    fi
    case $word in *[=:]) glue=yes ;; *) glue= ;; esac
  done
  local current=${words[at - 1]} kept=
  case $current in
    *[=:]*) [[ $COMP_WORDBREAKS == *=* ]] && kept=${current%"${current##*[=:]}"} ;;
  esac
  COMPREPLY=()
  while IFS= read -r word; do
    case $word in
      @files) _conductor_paths -f "$current" "$kept" ;;
      @folders) _conductor_paths -d "$current" "$kept" ;;
      @*) ;;
      "$current"*) COMPREPLY+=("${word#"$kept"}") ;;
    esac
  done < <(_conductor_candidates "${words[@]}")
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *@(=|,limit.) ]]; then
    compopt -o nospace 2>/dev/null
  fi
}

_conductor_paths() {
  local path start=$2
  [[ -n $3 && $2 == -*=* ]] && start=${2#*=}
  compopt -o filenames 2>/dev/null
  while IFS= read -r path; do
    COMPREPLY+=("$path")
  done < <(compgen "$1" -- "$start")
}

complete -F _conductor conductor
