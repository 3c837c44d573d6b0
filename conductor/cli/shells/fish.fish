# The words that may follow on a command line, each with what it means.

# Prints the words of a place: `log show`, `log show -` for options, `log show --turn` for the values
# of one. `@files`, `@folders` and `@component` stand for what fish or a function knows, and `@any`
# for what nobody can guess.
function __conductor_words
    switch $argv[1]
@CASES@
    end
end

# Candidates for the word at the cursor.
function __conductor_candidates
    set -l place ''
    set -l flag ''
    set -l after ''
    for word in (commandline -opc)[2..-1]
        set -l next (string trim -- "$place $word")
        if test -n "$flag"
            set flag ''
        else if test "$word" = --
            set after yes
        else if string match -q -- '-*' $word
            if test -z "$after"; and count (__conductor_words "$place $word") >/dev/null
                set flag $word
            end
        else if count (__conductor_words "$next -") >/dev/null
            set place $next
        end
    end
    set -l current (commandline -ct)
    if test -n "$flag"
        __conductor_expand "$place $flag" '' $current
    else if test -n "$after"; or not string match -q -- '-*' "$current"
        __conductor_expand "$place" '' $current
    else if string match -q -- '*=*' $current
        set -l parts (string split -m 1 = -- $current)
        __conductor_expand "$place $parts[1]" "$parts[1]=" $parts[2]
    else
        __conductor_expand "$place -" '' $current
    end
end

# The words of a place, each behind a text, with what the rest of the word may become.
function __conductor_expand -a place before current
    for each in (__conductor_words "$place")
        switch $each
            case @component
                __conductor_component "$current"
            case @files
                printf "%s\n" $before(complete -C "'' $current")
            case @folders
                printf "%s\n" $before(complete -C "'' $current" | string match -r '.*/(?=\t|$)')
            case '@*'
            case '*'
                echo $before$each
        end
    end
end

function __conductor_component -a current
    if not string match -q -- '*,*' "$current"
        __conductor_words @component
        return
    end
    set -l last (string replace -r '.*,' '' -- $current)
    set -l key (string match -r '^(?:limit\.|[^=]*=)|$' -- $last)[1]
    set -l before (string replace -r '[^,]*$' '' -- $current)$key
    printf '%s\n' $before(__conductor_words "@component,$key")
end

complete -c conductor -f -a '(__conductor_candidates)'
