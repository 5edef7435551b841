"""Find sentences of docstrings and pages that are hard to read.

python -m tests.plain_english               print every offender: file, line and reason, then the counts
python -m tests.plain_english PATH…         only those of these files and folders
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs")
PACKAGES = ("coordinators", "trident_py")
WORDS_MAX = 30

VAGUE = re.compile(r"\b(what|whoever|whatever|whose|nobody|somebody|those that|those who)\b", re.IGNORECASE)
"""Words that stand for a thing or a process that should be named."""

BANNED = {
    r"\b(is|are|was|were|been|being) told\b": "receives, is notified",
    r"\bhears? of\b": "receives, is notified",
    r"\b(is|are|was|were) away\b": "is unavailable",
    r"\b(goes|go|went|going) on\b": "continues",
    r"\b(give|gives|given|gave|giving) up\b": "aborts, abandons, stops",
    r"\blets? go\b": "releases",
    r"\b(comes?|came) to an end\b": "ends",
    r"\b(is|are) none\b": "is not one",
    r"\bbut for\b": "except",
    r"\bof (its|their|his|your|one's) own\b": "its own directory, not a directory of its own",
    r"\bwhere there (is|are)\b": "if there is",
    r"\ball that\b": "everything, or the noun",
    r"\bother than\b": "except, unlike",
    r"\b(takes?|took|taken) (it|them|that|this) for\b": "assumes that it is",
    r"\b(whoever|whatever|nobody|somebody|no one)\b": "name who acts: a process, a reader, the operator",
    r"\bwho wants\b": "name who acts",
    r"\bbesides?\b": "next to, and",
    r"\bstands\b(?! for)": "is, holds, is in effect",
}
"""Phrases, and what to write instead."""

LAUNDERED = re.compile(r"(Tell|Have|Give|Take note|See whether|Say)\b")
"""Verbs at the start of a docstring that say less than the verb of the field does."""

_FENCE = re.compile(r"\s*(```|~~~)")
_STARTS_BLOCK = re.compile(r"\s*([-*+]|\d+\.)\s|\s*>|\s*\|")
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"'*_]*\s+(?=[\"'(`*_\[A-Z0-9])")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf)\.")
_LABEL = re.compile(r"^\*{0,2}\w+(, \w+)*( \([^)]*\))?: ")
"""The name of an argument, attribute or error before its description."""
_SECTION = re.compile(r"\s*(Args|Arguments|Attributes|Returns|Raises|Yields|Example|Examples|Note|Notes):\s*$")


@frozen(order=True)
class Offender:
    """A sentence, and the reason why it is hard to read."""

    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


@frozen
class Block:
    """A paragraph, list item or table cell.

    Attributes:
        line: where it begins in its file.
        is_summary: whether it is the first paragraph of a docstring.
    """

    line: int
    text: str
    is_summary: bool = False


# --- blocks of text ---------------------------------------------------------------------------------------------------


def blocks_of_python(source: str) -> Iterator[Block]:
    """Yield the paragraphs of all docstrings, those of attributes included."""
    for node in ast.walk(ast.parse(source)):
        body: list[ast.stmt] = getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []
        for number, each in enumerate(body):
            text = _string(each)
            if text is not None:
                is_docstring = number == 0 and isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module)
                is_literal = False
                for index, (offset, paragraph) in enumerate(_paragraphs(text)):
                    if not is_literal:
                        prose = _LABEL.sub("", paragraph)
                        yield Block(each.lineno + offset, prose, is_docstring and index == 0)
                    is_literal = paragraph.endswith("::")


def blocks_of_markdown(source: str) -> Iterator[Block]:
    """Yield paragraphs, headings, list items and table cells; code is left out."""
    kept, is_code = [], False
    for line in source.splitlines():
        is_fence = bool(_FENCE.match(line))
        kept.append("" if is_code or is_fence or line.startswith("    ") else re.sub(r"<!--.*?-->", "", line))
        is_code ^= is_fence
    for offset, paragraph in _paragraphs("\n".join(kept)):
        if paragraph.startswith("|"):
            yield from (Block(offset + 1, cell.strip()) for cell in re.split(r"(?<!\\)\|", paragraph))
        else:
            yield Block(offset + 1, paragraph.lstrip("#-*+> "))


def _string(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return None


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph in one line, with the number of its first line, from 0."""
    lines: list[str] = []
    first = 0
    for number, line in enumerate([*text.splitlines(), ""]):
        is_boundary = not line.strip() or _STARTS_BLOCK.match(line) or line.startswith("#") or _is_entry(line)
        if is_boundary and lines:
            yield first, " ".join(lines)
            lines = []
        if line.strip() and not _SECTION.match(line):
            first = first if lines else number
            lines.append(line.strip())


def _is_entry(line: str) -> bool:
    """Return whether a line begins the description of an argument, attribute or error."""
    return bool(re.match(r"\s{4,}\*{0,2}\w+( \(.*\))?: ", line))


# --- judgement --------------------------------------------------------------------------------------------------------


def sentences(text: str) -> list[str]:
    """Split a paragraph; code and the targets of links become single words."""
    plain = re.sub(r"``[^`]*``|`[^`]*`", "code", text)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    plain = _ABBREVIATION.sub(lambda found: found.group().replace(".", ""), plain)
    return [each for each in _SENTENCE_END.split(plain) if each.strip()]


def reasons(block: Block) -> Iterator[str]:
    """Yield what is wrong with a block."""
    for number, sentence in enumerate(sentences(block.text)):
        clause = re.split(r"[,;:.—]", sentence)[0]
        is_question = sentence.rstrip("*_\"')").endswith("?")
        if number == 0 and block.is_summary and LAUNDERED.match(sentence):
            yield f"begins with {sentence.split()[0]!r}: name the action: {_excerpt(sentence)}"
        is_first = number == 0 and block.is_summary
        opens_vaguely = VAGUE.match(sentence) or sentence.startswith("Who ")
        if not is_question and (found := VAGUE.search(clause) if is_first else opens_vaguely):
            word = found.group() if isinstance(found, re.Match) else "Who"
            yield f"{word!r} in the first clause: name the thing: {_excerpt(sentence)}"
        for pattern, instead in BANNED.items():
            if hit := re.search(pattern, sentence, re.IGNORECASE):
                yield f"{hit.group()!r}, not plain ({instead}): {_excerpt(sentence)}"
        if (words := len(sentence.split())) > WORDS_MAX:
            yield f"{words} words in one sentence: {_excerpt(sentence)}"


def _excerpt(sentence: str) -> str:
    return sentence if len(sentence) <= 80 else f"{sentence[:79]}…"


def offenders(paths: Iterable[Path]) -> list[Offender]:
    """Return the offenders of these files, and of all files below these folders, in order."""
    found = []
    for path in sorted({file for each in paths for file in _files(each)}):
        source = path.read_text(encoding="utf-8")
        blocks = blocks_of_python(source) if path.suffix == ".py" else blocks_of_markdown(source)
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()
        found += [Offender(name, block.line, reason) for block in blocks for reason in reasons(block)]
    return sorted(found)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [each for suffix in ("*.py", "*.md") for each in path.rglob(suffix)]


def room(path: str) -> str:
    """Return the room of a file: the folder in its package, the package itself, ``docs``, or the page."""
    parts = Path(path).parts
    if parts[0] in PACKAGES and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0]


def main(arguments: list[str]) -> int:
    """Print the offenders and their counts; return 1 if there are any."""
    paths = [Path(each).resolve() for each in arguments] or [ROOT / each for each in (*PACKAGES, *PAGES)]
    found = offenders(paths)
    for each in found:
        print(each)  # noqa: T201 - this is a command
    for name, count in Counter(each.path for each in found).most_common():
        print(f"{count:5} {name}")  # noqa: T201
    print(f"{len(found):5} in all")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
