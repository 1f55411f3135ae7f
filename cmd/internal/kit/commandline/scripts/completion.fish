# Completion of PROGRAM in fish: save it in ~/.config/fish/completions as PROGRAM.fish, or source it.
function __PROGRAM_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] __complete -- $words[2..-1] "$current" 2>/dev/null)
    switch "$lines[-1]"
        case files
            __fish_complete_path (string replace -r -- '^--[^=]*=' '' "$current")
        case directories
            __fish_complete_directories (string replace -r -- '^--[^=]*=' '' "$current")
        case '*'
            if set -q lines[2]
                printf '%s\n' $lines[1..-2]
            end
    end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
