"""Finds the functions of a C++ text: where each begins and ends, and how many parameters it has. This module matches
brackets and does not parse C++: it reads declarations as this repository writes them, and expands no macros. Inside
functions, it finds only lambdas. All functions here are pure functions of the text."""

import bisect
import re
from dataclasses import dataclass

TOKEN = re.compile(r"""
    (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
  | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)")
  | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<word>[A-Za-z_]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
  | (?P<sign>::|->|<<|<=|\S)
""", re.S | re.M | re.X)
CLOSING = {"(": ")", "[": "]", "{": "}"}
CLASS_KEYWORDS = {"class", "struct", "union"}
# A parenthesis after one of these words does not begin a list of parameters.
NO_NAMES = {"alignas", "decltype", "explicit", "noexcept", "requires", "static_assert", "__attribute__", "if", "for",
            "while", "switch", "return", "sizeof", "catch"}


class Unreadable(ValueError):
    """Raised if brackets do not match, because functions cannot be found then."""

    def __init__(self, line, message):
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Token:
    text: str
    line: int


@dataclass(frozen=True)
class Function:
    name: str
    first: int  # line of the first token of the declaration
    last: int  # line of the closing brace, or of the last token of a declaration without a body
    parameters: int
    is_c: bool  # whether it has C linkage


def tokens_of(text):
    """Returns the tokens, without comments and directives. Of the branches of an #if, takes only the first."""
    starts = [match.start() for match in re.finditer("^", text, re.M)]
    tokens, skipped = [], 0  # skipped: number of open #if inside a branch that is left out
    for match in TOKEN.finditer(text):
        if match["directive"]:
            directive = re.match(r"\s*#\s*(\w*)", match[0])[1]
            if skipped:
                skipped += directive.startswith("if") - (directive == "endif")
            elif directive in ("else", "elif"):
                skipped = 1
        elif not match["comment"] and not skipped:
            tokens.append(Token(match[0], bisect.bisect(starts, match.start())))
    return tokens


def closing(tokens, at):
    """Returns the position of the bracket that closes the bracket at `at`."""
    open_brackets = []
    for position in range(at, len(tokens)):
        text = tokens[position].text
        if text in CLOSING:
            open_brackets.append(CLOSING[text])
        elif text in CLOSING.values():
            if not open_brackets or open_brackets.pop() != text:
                raise Unreadable(tokens[position].line, f"{text} does not match what is open")
            if not open_brackets:
                return position
    raise Unreadable(tokens[min(at, len(tokens) - 1)].line, "a bracket is not closed")


def after_angles(tokens, at):
    """Returns the position after the > that closes the < at `at`. If the < is a comparison, returns the position after
    the <."""
    depth, position = 0, at
    while position < len(tokens):
        text = tokens[position].text
        depth += (text == "<") - (text == ">")
        if depth == 0:
            return position + 1
        position = closing(tokens, position) + 1 if text in CLOSING else position + 1
    return at + 1


def parameter_count(tokens):
    """Returns the number of parameters in a list; `tokens` are between its parentheses."""
    if not tokens or [token.text for token in tokens] == ["void"]:
        return 0
    count, at = 1, 0
    while at < len(tokens):
        text = tokens[at].text
        if text == "<":
            at = after_angles(tokens, at)
        elif text in CLOSING:
            at = closing(tokens, at) + 1
        else:
            count += text == ","
            at += 1
    return count


def parameter_list(head):
    """Returns (position of the opening parenthesis of the parameters in declaration `head`, position of the closing
    one, the function's name), or None if `head` declares no function. `head` begins after template parameters."""
    at, texts = 0, [token.text for token in head]
    while at < len(head):
        text, before = texts[at], texts[at - 1] if at > 0 else ""
        if text == "operator" and "(" in texts[at:]:
            opening = texts.index("(", at)
            if texts[at + 1:at + 4] == ["(", ")", "("]:
                opening += 2
            return opening, closing(head, opening), "".join(texts[at:opening])
        if text == "=":
            return None
        if text == "<":
            at = after_angles(head, at)
        elif text == "(":
            end = closing(head, at)
            if re.match(r"[A-Za-z_]", before) and before not in NO_NAMES:
                return at, end, before
            at = end + 1
        elif text in CLOSING:
            at = closing(head, at) + 1
        else:
            at += 1
    return None


def without_template(head):
    while head and head[0].text == "template":
        head = head[after_angles(head, 1):]
    return head


def opens_scope(head):
    """Returns whether the brace after `head` encloses declarations, because `head` is a namespace, a class or extern
    "C"."""
    declared = without_template(head)
    texts = [token.text for token in declared]
    if "namespace" in texts or texts == ["extern", '"C"']:
        return True
    # The class keyword may follow words such as "static". The brace of an enum class encloses no declarations.
    return not CLASS_KEYWORDS.isdisjoint(texts[:3]) and "enum" not in texts and parameter_list(declared) is None


def in_initialisers(head):
    """Returns whether the brace after `head` initializes a member in a constructor's list, as in `A() : b{1} {`."""
    declared = without_template(head)
    _, end, _ = parameter_list(declared)
    rest = [token.text for token in declared[end + 1:]]
    return ":" in rest and rest[-1] not in (")", "}")


def function_of(head, last, is_c):
    """Returns the function that `head` declares, or None."""
    declared = without_template(head)
    if not declared or declared[0].text in ("using", "typedef", "static_assert"):
        return None
    found = parameter_list(declared)
    if not found:
        return None
    opening, end, name = found
    return Function(name, head[0].line, last, parameter_count(declared[opening + 1:end]),
                    is_c or [token.text for token in head[:2]] == ["extern", '"C"'])


def lambdas_of(tokens):
    """Yields the lambdas that have a parameter list. Their `last` is the line where this list ends, not the lambda's
    body."""
    for at in range(len(tokens) - 1):
        if tokens[at].text == "]" and tokens[at + 1].text == "(":
            end = closing(tokens, at + 1)
            if end + 1 < len(tokens) and tokens[end + 1].text in ("{", "mutable", "->", "noexcept"):
                yield Function("lambda", tokens[at].line, tokens[end].line, parameter_count(tokens[at + 2:end]), False)


def functions(text):
    """Returns a list of all functions that `text` declares or defines, and of all lambdas. Raises Unreadable."""
    tokens = tokens_of(text)
    found = list(lambdas_of(tokens))
    scopes = []  # for each enclosing scope, whether it has C linkage
    start = at = 0  # start: where the declaration that contains `at` begins
    while at < len(tokens):
        sign, head = tokens[at].text, tokens[start:at]
        if sign == ";":
            function = function_of(head, tokens[at].line, any(scopes))
            if function:
                found.append(function)
            start = at + 1
        elif sign == "}":
            if not scopes:
                raise Unreadable(tokens[at].line, "} closes nothing")
            scopes.pop()
            start = at + 1
        elif sign == ":" and [token.text for token in head] in (["public"], ["private"], ["protected"]):
            start = at + 1
        elif sign == "{" and opens_scope(head):
            scopes.append([token.text for token in head] == ["extern", '"C"'])
            start = at + 1
        elif sign in CLOSING:
            end = closing(tokens, at)
            while [token.text for token in tokens[end + 1:end + 2]] == ["catch"]:
                end = closing(tokens, closing(tokens, end + 2) + 1)
            function = function_of(head, tokens[end].line, any(scopes)) if sign == "{" else None
            if function and not in_initialisers(head):
                found.append(function)
                start = end + 1
            at = end
        at += 1
    if scopes or start < len(tokens):
        raise Unreadable(tokens[-1].line, "the text ends inside a declaration")
    return sorted(found, key=lambda function: function.first)
