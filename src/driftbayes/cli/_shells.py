"""Completion scripts for three shells, from the tree of commands."""

__all__ = ["bash", "fish", "zsh"]

from collections.abc import Sequence
from shlex import quote

from driftbayes.cli._completion_tree import Command, Option, Values, Words

_HEAD = "completion of driftbayes, made by `driftbayes completion {}`"

_BASH = r"""
_driftbayes() {
    local line=${COMP_LINE:0:COMP_POINT} cur prev word at="" kind="" list="" head tail
    local -a typed
    read -ra typed <<< "$line"
    [[ $line == *[[:space:]] ]] && typed+=("")
    cur=${typed[-1]} prev=${typed[-2]}
    for word in "${typed[@]:1:${#typed[@]}-2}"; do
        case "$at/$word" in
            @PATHS@) at=$at/$word ;;
        esac
    done
    if [[ $cur == --*=* ]]; then
        prev=${cur%%=*} cur=${cur#*=}
    fi
    case "$at:$prev" in
@VALUES@
        *) if [[ $cur == -* ]]; then
            kind=words
            case "$at" in
@OPTIONS@
            esac
        else
            case "$at" in
@PLACES@
            esac
        fi ;;
    esac
    COMPREPLY=()
    case "$kind" in
        words) COMPREPLY=($(compgen -W "$list" -- "$cur")) ;;
        models)
            tail=${cur##*[,+]} head=${cur%"${cur##*[,+]}"} list="@MODELS@"
            [[ $head == *+ ]] && list="@MODEL_OPTIONS@"
            COMPREPLY=($(compgen -P "$head" -W "$list" -- "$tail"))
            compopt -o nospace 2> /dev/null ;;
        priors)
            tail=${cur##*=} head=${cur%"${cur##*=}"} list="@PARAMETERS@"
            [[ $head == *= ]] && list="@FAMILIES@"
            COMPREPLY=($(compgen -P "$head" -W "$list" -- "$tail"))
            compopt -o nospace 2> /dev/null ;;
        files) return ;;
    esac
    # No names of files where a word of the list or a number is wanted.
    compopt +o default 2> /dev/null
    # Bash replaces what stands behind the last = or :, not the whole word.
    if [[ $COMP_WORDBREAKS == *=* && $cur == *[=:]* ]]; then
        head=${cur%"${cur##*[=:]}"}
        COMPREPLY=("${COMPREPLY[@]#"$head"}")
    fi
}
complete -o default -F _driftbayes driftbayes
"""

_ZSH = r"""
_driftbayes_models() {
    compset -P '*,'
    if compset -P '*+'; then
        compadd -S '' -- @MODEL_OPTIONS@
    else
        compadd -S '' -- @MODELS@
    fi
}

_driftbayes_priors() {
    if compset -P '*='; then
        compadd -S ':' -- @FAMILIES@
    else
        compadd -S '=' -- @PARAMETERS@
    fi
}

_driftbayes() {
    local at="" curcontext=$curcontext
    local -i i n=1
    for ((i = 2; i < CURRENT; i++)); do
        case "$at/${words[i]}" in
            (@PATHS@) at="$at/${words[i]}" n=i ;;
        esac
    done
    # The command's own name is the first word that _arguments sees.
    words=("${(@)words[n,-1]}")
    ((CURRENT -= n - 1))
    case "$at" in
@COMMANDS@
    esac
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _driftbayes "$@"
else
    compdef _driftbayes driftbayes
fi
"""

_FISH = r"""
function __driftbayes_at
    set -l at ""
    for word in (commandline -opc)[2..-1]
        switch "$at/$word"
            case @PATHS@
                set at "$at/$word"
        end
    end
    test "$at" = "$argv[1]"
end

function __driftbayes_models
    set -l head (string replace -r '[^,+]*$' '' -- (commandline -ct))
    if string match -q -- '*+' "$head"
        printf '%s\n' "$head"(string split ' ' '@MODEL_OPTIONS@')
    else
        printf '%s\n' "$head"(string split ' ' '@MODELS@')
    end
end

function __driftbayes_priors
    set -l head (string match -r '^[^=]*=' -- (commandline -ct))
    if test -n "$head"
        printf '%s\n' "$head"(string split ' ' '@FAMILIES@')
    else
        printf '%s\n' (string split ' ' '@PARAMETERS@')
    end
end

complete -c driftbayes -e
"""


def bash(commands: Sequence[Command], words: Words) -> str:
    """For bash: `complete` with one function."""
    # Places in which the same may stand share a line.
    values: dict[str, list[str]] = {}
    options: dict[str, list[str]] = {}
    places: dict[str, list[str]] = {}
    for command in commands:
        flags = " ".join(flag for option in command.options for flag in option.flags)
        options.setdefault(f'list="{flags}"', []).append(quote(command.path))
        for option in command.options:
            if option.values is not None:
                here = [quote(f"{command.path}:{flag}") for flag in option.flags]
                values.setdefault(_bash_kind(option.values), []).extend(here)
        first = Values("words", "", tuple(command.children))
        if not command.children and command.positionals:
            first = command.positionals[0]
        places.setdefault(_bash_kind(first), []).append(quote(command.path))
    return "# " + _filled(
        _HEAD.format("bash") + _BASH,
        words,
        PATHS=_paths(commands, "|"),
        VALUES=_bash_cases(values, 8),
        OPTIONS=_bash_cases(options, 16),
        PLACES=_bash_cases(places, 16),
        suffixes=("=", ":"),
    )


def zsh(commands: Sequence[Command], words: Words) -> str:
    """For zsh: `_arguments` for each command."""
    cases = []
    for command in commands:
        specs = [spec for option in command.options for spec in _zsh_option(option)]
        if command.children:
            named = " ".join(f'{n}\\:"{_zsh_text(t)}"' for n, t in command.children.items())
            specs.append(quote(f"1:command:(({named}))"))
        specs += [
            quote(f"{'*' if i == len(command.positionals) else i}:{_zsh_text(v.name)}:{_zsh(v)}")
            for i, v in enumerate(command.positionals, start=1)
        ]
        lines = " \\\n            ".join(["_arguments -S :", *specs])
        cases.append(f'        ("{command.path}") {lines} ;;')
    return _filled(
        f"#compdef driftbayes\n# {_HEAD.format('zsh')}" + _ZSH,
        words,
        PATHS=_paths(commands, "|"),
        COMMANDS="\n".join(cases),
    )


def fish(commands: Sequence[Command], words: Words) -> str:
    """For fish: one `complete` for each option of each command."""
    lines = []
    for command in commands:
        at = f"complete -c driftbayes -n '__driftbayes_at \"{command.path}\"'"
        for name, text in command.children.items():
            lines.append(f"{at} -f -a {name} -d {_fish_text(text)}")
        for option in command.options:
            spelled = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                for flag in option.flags
            )
            lines.append(f"{at} {spelled}{_fish(option.values)} -d {_fish_text(option.help)}")
        for place in command.positionals:
            lines.append(at + (" -F" if place.kind == "files" else f" -f{_fish_list(place)}"))
        if not command.children and not command.positionals:
            lines.append(f"{at} -f")
    script = f"# {_HEAD.format('fish')}" + _FISH + "\n".join(lines) + "\n"
    return _filled(script, words, PATHS=_paths(commands, " "), suffixes=("=", ":"))


def _filled(
    script: str, words: Words, *, suffixes: tuple[str, str] = ("", ""), **parts: str
) -> str:
    """A script with its lists; suffixes follow a parameter and a family of priors."""
    equals, colon = suffixes
    parts |= {
        "MODELS": " ".join(words.models),
        "MODEL_OPTIONS": " ".join(words.options),
        "PARAMETERS": " ".join(f"{name}{equals}" for name in words.parameters),
        "FAMILIES": " ".join(f"{name}{colon}" for name in words.families),
    }
    for name, text in parts.items():
        script = script.replace(f"@{name}@", text)
    return script


def _paths(commands: Sequence[Command], separator: str) -> str:
    return separator.join(command.path for command in commands if command.path)


def _bash_cases(places: dict[str, list[str]], indent: int) -> str:
    return "\n".join(
        f"{' ' * indent}{'|'.join(where)}) {what} ;;" for what, where in places.items()
    )


def _bash_kind(values: Values) -> str:
    if values.kind == "words":
        return f'kind=words list="{" ".join(values.words)}"'
    return f"kind={values.kind}"


def _zsh_text(text: str) -> str:
    """Text inside an argument of `_arguments`, where brackets, colons and quotes have a meaning."""
    plain = text.replace("\\", "").replace('"', "").replace("`", "")
    for sign in "[]:":
        plain = plain.replace(sign, f"\\{sign}")
    return plain


def _zsh_option(option: Option) -> list[str]:
    after = "" if option.values is None else f":{_zsh_text(option.values.name)}:"
    after += "" if option.values is None else _zsh(option.values)
    return [
        # A long option takes its value in the next word or after an equals sign.
        quote(f"*{flag}{'=' * (flag[1] == '-' and bool(after))}[{_zsh_text(option.help)}]{after}")
        for flag in option.flags
    ]


def _zsh(values: Values) -> str:
    known = {"files": "_files", "models": "_driftbayes_models", "priors": "_driftbayes_priors"}
    return f"({' '.join(values.words)})" if values.kind == "words" else known.get(values.kind, " ")


def _fish(values: Values | None) -> str:
    if values is None:
        return ""
    return " -r -F" if values.kind == "files" else f" -x{_fish_list(values)}"


def _fish_list(values: Values) -> str:
    if values.kind == "words":
        return f" -a {_fish_text(' '.join(values.words))}"
    if values.kind in ("models", "priors"):
        return f" -a '(__driftbayes_{values.kind})'"
    return ""


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
