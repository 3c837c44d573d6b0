# Whether these words are the command and its subcommand so far.
function __conductor_in
    set -l found
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; or set -a found $word
    end
    set -l depth (count $argv)
    if test $depth -eq 0
        test (count $found) -eq 0
    else
        test "$found[1..$depth]" = "$argv"
    end
end

function __conductor_component
    set -l word (commandline -ct)
    set -l before (string replace -r '[^,]*$' '' -- $word)
    switch (string replace -r '^.*,' , -- $word)
@COMPONENT@
    end
end

complete -c conductor -f
@TABLES@
