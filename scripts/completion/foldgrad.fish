# Completion for fish. The program suggests words; if it suggests none, fish completes file names.
function __foldgrad_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l known ($words[1] complete $words[2..] 2>/dev/null)
    or return
    if set -q known[1]
        printf '%s\n' $known
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c foldgrad -f -a '(__foldgrad_complete)'
