_conductor() {
  local word
  local -a plain open
  for word in "${(@f)$(_conductor_candidates "${(@Q)words[2,CURRENT-1]}" "${(Q)words[CURRENT]}")}"; do
    case $word in
      @files) _files ;;
      @folders) _files -/ ;;
      ''|@*) ;;
      *=|*,limit.) open+=("$word") ;;
      *) plain+=("$word") ;;
    esac
  done
  (( $#plain )) && compadd -- "${plain[@]}"
  (( $#open )) && compadd -S '' -- "${open[@]}"
  return 0
}

if [ "$funcstack[1]" = "_conductor" ]; then
  _conductor "$@"
elif (( $+functions[compdef] )); then
  compdef _conductor conductor
fi
