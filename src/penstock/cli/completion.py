"""`penstock completion`: a script that lets a shell complete commands, verbs, options and their values.

The script is generated from the commands' own parsers. It calls nothing, so completing is instant and needs no broker:
names of topics and groups are left out.
"""

import argparse
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from penstock.cli.main import COMMANDS
from penstock.cli.output import print_lines
from penstock.cli.parsing import Parser, new_parser


class Option(NamedTuple):
    """An option by all its names, and its possible values if they can be listed."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...]


class CommandNode(NamedTuple):
    """The subcommands, with their help, and options that may follow the words of `path`."""

    path: tuple[str, ...]
    words: dict[str, str]
    options: tuple[Option, ...]


def add_arguments(parser: Parser) -> None:
    parser.usage = f"{parser.prog} SHELL"
    parser.description = "Print a script that lets a shell complete penstock's commands and options."
    parser.add_argument("shell", choices=tuple(_SCRIPTS), metavar="SHELL", help=", ".join(_SCRIPTS))
    parser.epilog = (
        'bash:  eval "$(penstock completion bash)"    in ~/.bashrc\n'
        'zsh:   eval "$(penstock completion zsh)"     in ~/.zshrc, after compinit\n'
        "fish:  penstock completion fish | source     in ~/.config/fish/config.fish"
    )


def run(arguments: Namespace) -> int:
    print_lines(_SCRIPTS[arguments.shell](list(nodes())))
    return 0


def nodes() -> Iterator[CommandNode]:
    """All commands and subcommands, the shortest path first."""
    yield CommandNode((), dict(COMMANDS), (Option(("--help",), "tell more", False, ()), _VERSION))
    for command in COMMANDS:
        parser = new_parser(f"penstock {command}")
        import_module(f"penstock.cli.{command}").add_arguments(parser)
        yield from _below((command,), parser)


_VERSION: Final = Option(("--version",), "print the version", False, ())


def _below(path: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[CommandNode]:
    words: dict[str, str] = {}
    options = []
    verbs: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            verbs = action.choices
            words |= {each.dest: each.help or "" for each in action._choices_actions}
        elif action.option_strings:
            options.append(
                Option(
                    tuple(action.option_strings),
                    (action.help or "").replace("%%", "%"),
                    action.nargs != 0,
                    tuple(map(str, action.choices or ())),
                )
            )
        elif action.choices:
            words |= dict.fromkeys(map(str, action.choices), "")
    yield CommandNode(path, words, tuple(options))
    for name, verb in verbs.items():
        yield from _below((*path, name), verb)


# bash: the path is found by walking the words before the cursor; unknown words are arguments or values.


def _bash(found: Sequence[CommandNode]) -> Iterator[str]:
    yield "# penstock's completion for bash, written by `penstock completion bash`."
    yield "_penstock() {"
    yield '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" place="" words="" word'
    yield '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield '    case "$place/$word" in'
    yield f'      {"|".join(_walk(found))}) place="$place/$word" ;;'
    yield '      /[!-]*) [[ -z "$place" ]] && place=unknown ;;'
    yield "    esac"
    yield "  done"
    yield '  case "$place $previous" in'
    for pattern, values in _values(found):
        yield f'    {pattern}) COMPREPLY=($(compgen -W "{values}" -- "$current")); return ;;'
    for node in found:
        if names := " ".join(
            name for each in node.options if each.takes_value and not each.values for name in each.names
        ):
            patterns = "|".join(f'"{_path(node)} {name}"' for name in names.split())
            yield f"    {patterns}) COMPREPLY=(); return ;;"
    yield "  esac"
    yield '  case "$place" in'
    for node in found:
        words = " ".join(node.words)
        options = " ".join(name for each in node.options for name in each.names)
        yield f'    "{_path(node)}") words="{words}"; [[ $current == -* ]] && words="{options}" ;;'
    yield "  esac"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield "}"
    yield "complete -o default -F _penstock penstock"


def _path(node: CommandNode) -> str:
    return "".join(f"/{word}" for word in node.path)


def _walk(found: Sequence[CommandNode]) -> list[str]:
    return [f'"{_path(node)}"' for node in found if node.path]


def _values(found: Sequence[CommandNode]) -> Iterator[tuple[str, str]]:
    for node in found:
        for option in node.options:
            if option.values:
                yield "|".join(f'"{_path(node)} {name}"' for name in option.names), " ".join(option.values)


# zsh: the same walk; words have their help. (A variable called `path` would be zsh's PATH.)


def _zsh(found: Sequence[CommandNode]) -> Iterator[str]:
    yield "#compdef penstock"
    yield "# penstock's completion for zsh, written by `penstock completion zsh`."
    yield "_penstock() {"
    yield '  local place="" word'
    yield "  local -a offered"
    yield '  for word in "${(@)words[2,CURRENT-1]}"; do'
    yield '    case "$place/$word" in'
    yield f'      {"|".join(_walk(found))}) place="$place/$word" ;;'
    yield '      /[!-]*) [[ -z "$place" ]] && place=unknown ;;'
    yield "    esac"
    yield "  done"
    yield '  case "$place ${words[CURRENT-1]}" in'
    for pattern, values in _values(found):
        yield f"    {pattern}) compadd -- {values}; return ;;"
    yield "  esac"
    yield '  case "$place" in'
    for node in found:
        yield f'    "{_path(node)}")'
        yield f"      offered=({' '.join(_quoted(_described(name, text)) for name, text in node.words.items())})"
        options = [_described(name, each.help) for each in node.options for name in each.names]
        yield f'      [[ "${{words[CURRENT]}}" == -* ]] && offered=({" ".join(map(_quoted, options))}) ;;'
    yield "  esac"
    yield "  if (( ${#offered} )); then _describe penstock offered; else _files; fi"
    yield "}"
    yield "compdef _penstock penstock"


def _described(name: str, text: str) -> str:
    return f"{name}:{text}" if text else name


# fish: one rule per word and option, with the words that must precede it.


def _fish(found: Sequence[CommandNode]) -> Iterator[str]:
    yield "# penstock's completion for fish, written by `penstock completion fish`."
    yield "complete -c penstock -n __fish_use_subcommand -f"
    for node in found:
        rule = f"complete -c penstock -n {_quoted(_condition(node))}"
        for name, text in node.words.items():
            yield f"{rule} -f -a {_quoted(name)} -d {_quoted(text)}"
        for option in node.options:
            names = " ".join(
                f"-{'l' if name.startswith('--') else 's'} {name.lstrip('-')}" for name in option.names
            )
            value = (
                f" -x -a {_quoted(' '.join(option.values))}" if option.values else " -r" * option.takes_value
            )
            yield f"{rule} {names} -d {_quoted(option.help)}{value}"


def _condition(node: CommandNode) -> str:
    if not node.path:
        return "__fish_use_subcommand"
    seen = [f"__fish_seen_subcommand_from {word}" for word in node.path]
    if node.words:
        seen.append(f"not __fish_seen_subcommand_from {' '.join(node.words)}")
    return "; and ".join(seen)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''") + "'"


_SCRIPTS: Final[dict[str, Callable[[Sequence[CommandNode]], Iterator[str]]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
