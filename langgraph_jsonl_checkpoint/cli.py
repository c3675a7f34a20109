"""The command line: `python -m langgraph_jsonl_checkpoint verify|salvage <root> [thread …]`.

Exit codes: 0, all is well; 1, a log is damaged (for `salvage`: something of it is lost); 2, a log cannot be read, the
command makes no sense, or its output cannot be written. Of several threads the worst one counts.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from langgraph_jsonl_checkpoint.errors import CorruptSessionError, SessionError, WrongSerdeError
from langgraph_jsonl_checkpoint.saver import JsonlSaver
from langgraph_jsonl_checkpoint.values.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GOOD, DAMAGED, UNREADABLE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not os.path.isdir(options.root):
        parser.error(f"{options.root} is no directory")  # which exits with 2
    try:
        with JsonlSaver(options.root, workspace=options.workspace, chain_key=_key(options.chain_key_file)) as saver:
            command: Callable[[JsonlSaver, argparse.Namespace], int] = options.command
            return command(saver, options)
    except (ValueError, OSError) as error:
        parser.exit(UNREADABLE, f"{parser.prog}: {error}\n")  # there may be no stderr, which this puts up with


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m langgraph_jsonl_checkpoint",
        description="Check and salvage session logs. Nothing is ever changed in place.",
        epilog="Exit codes: 0 good, 1 damaged, 2 cannot be read.",
    )
    commands = parser.add_subparsers(required=True, metavar="verify|salvage")
    check = commands.add_parser("verify", help="check all of a log: frames, chain, records, references, folds")
    check.add_argument("root", help="the saver's directory")
    check.add_argument("threads", nargs="*", metavar="thread", help="thread ids; all of the workspace without one")
    check.add_argument("--head", metavar="SEQ:CHAIN", help="a commit that the one thread's log must still hold")
    check.set_defaults(command=_verify)
    rescue = commands.add_parser("salvage", help="write what can be read of a log into a new thread")
    rescue.add_argument("root", help="the saver's directory")
    rescue.add_argument("threads", nargs="+", metavar="thread", help="thread ids")
    rescue.add_argument("--into", help="the new thread's id; without it <thread>-salvaged")
    rescue.set_defaults(command=_salvage)
    for each in (check, rescue):
        each.add_argument("--workspace", help="the saver's workspace")
        each.add_argument("--chain-key-file", metavar="FILE", help="a file with the saver's chain_key, byte for byte")
    return parser


def _key(path: str | None) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()


def _verify(saver: JsonlSaver, options: argparse.Namespace) -> int:
    head = _head(options.head)
    if head is not None and len(options.threads) != 1:
        raise ValueError("--head is about one thread; name it")

    def check(thread_id: str) -> tuple[int, str]:
        report = saver.verify(thread_id, head=head)
        end = f"; head {report.head.seq}:{report.head.chain}" if report.ok and report.head else ""
        return GOOD if report.ok else DAMAGED, f"{report}{end}"

    if options.threads:
        return max([_tried(thread_id, check) for thread_id in options.threads])
    codes = []
    for path, thread_id in saver.logs():
        if thread_id is None:
            _say(f"{path}: damaged; its header, which alone knows the thread's long id, cannot be read")
            codes.append(DAMAGED)
        else:
            codes.append(_tried(thread_id, check))
    if not codes:
        raise ValueError(f"there is no session in {options.root}, workspace {options.workspace or 'default'!r}")
    return max(codes)


def _salvage(saver: JsonlSaver, options: argparse.Namespace) -> int:
    if options.into is not None and len(options.threads) != 1:
        raise ValueError("--into is for one thread; name it")

    def rescue(thread_id: str) -> tuple[int, str]:
        report = saver.salvage(thread_id, options.into or f"{thread_id}-salvaged")
        return GOOD if report.is_whole else DAMAGED, str(report)

    return max([_tried(thread_id, rescue) for thread_id in options.threads])


def _tried(thread_id: str, command: Callable[[str], tuple[int, str]]) -> int:
    """Run a command for one thread; its exit code. What is wrong with the thread does not stop the others."""
    try:
        code, text = command(thread_id)
    except (SessionError, ValueError, OSError) as error:
        is_damage = isinstance(error, CorruptSessionError) and not isinstance(error, WrongSerdeError)
        code = DAMAGED if is_damage else UNREADABLE
        what = (
            "cannot be read: " if isinstance(error, SessionError) else ""
        )  # other errors say what could not be done
        text = f"{printable(thread_id)}: {what}{error}"
    _say(text)
    return code


def _head(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    seq, _, chain = text.partition(":")
    if not seq.isdecimal() or not chain:
        raise ValueError(f"a head is SEQ:CHAIN, as verify prints it, and not {text!r}")
    return int(seq), chain


def _say(text: str) -> None:
    if sys.stdout is None:
        return  # somebody who only wants the exit code has closed it
    shown = "\n".join(map(printable, text.split("\n")))
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(shown.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stdout.flush()
    except OSError as error:
        # Python would try to write it once more when the process ends, and change the exit code if that fails.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise
